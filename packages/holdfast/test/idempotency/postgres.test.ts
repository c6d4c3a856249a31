// @module-tag effects
import { describeRun } from './contract/suite.js'

await describeRun('postgres', (url) => `${url}?max=4`)
