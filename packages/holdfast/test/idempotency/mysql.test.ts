// @module-tag effects
import { describeRun } from './contract/suite.js'

await describeRun('mysql', (url) => `${url}?max=4`)
