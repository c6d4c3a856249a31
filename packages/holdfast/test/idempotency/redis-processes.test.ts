import { describeProcesses } from './processes/suite.js'

await describeProcesses('redis')
