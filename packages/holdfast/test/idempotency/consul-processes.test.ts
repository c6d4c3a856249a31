// @module-tag effects
import { describeProcesses } from './processes/suite.js'

// The servers here take sessions of a second.
await describeProcesses('consul', (url) => `${url}?ttlMinMs=1000`)
