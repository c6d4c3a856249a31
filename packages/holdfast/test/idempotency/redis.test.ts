// @module-tag effects
import { describeRun } from './contract/suite.js'

await describeRun('redis')
