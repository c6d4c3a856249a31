// @module-tag effects
import { randomUUID } from 'node:crypto'
import { describeProcesses } from './processes/suite.js'

await describeProcesses('memcached', (url) => `${url}?prefix=${randomUUID()}:`)
