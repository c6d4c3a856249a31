// @module-tag effects
import { describeProcesses } from './processes/suite.js'

await describeProcesses('postgres', (url) => `${url}?max=4`)
