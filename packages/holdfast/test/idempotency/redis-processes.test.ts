// @module-tag effects
import { describeProcesses } from './processes/suite.js'

await describeProcesses('redis')
