// @module-tag effects
import { randomUUID } from 'node:crypto'
import { describeRun } from './contract/suite.js'

await describeRun('memcached', (url) => `${url}?prefix=${randomUUID()}:`)
