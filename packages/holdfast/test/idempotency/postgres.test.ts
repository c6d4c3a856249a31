import { describeRun } from './contract/suite.js'

await describeRun('postgres', (url) => `${url}?max=4`)
