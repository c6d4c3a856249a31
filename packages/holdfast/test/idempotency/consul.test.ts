// @module-tag effects
import { describeRun } from './contract/suite.js'

// The servers here take sessions of a second.
await describeRun('consul', (url) => `${url}?ttlMinMs=1000`)
