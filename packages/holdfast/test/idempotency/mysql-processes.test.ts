// @module-tag effects
import { describeProcesses } from './processes/suite.js'

await describeProcesses('mysql', (url) => `${url}?max=4`)
