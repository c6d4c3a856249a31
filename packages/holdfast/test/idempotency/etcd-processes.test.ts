// @module-tag effects
import { describeProcesses } from './processes/suite.js'

await describeProcesses('etcd', (url) => `${url}?versionWarning=false`)
