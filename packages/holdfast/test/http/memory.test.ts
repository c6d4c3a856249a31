// @module-tag effects
import { memoryRecords } from '../../src/backends/memory/records.js'
import { describeAdapters } from './describe-adapters.js'

describeAdapters('memory', async () => memoryRecords('http-suite'))
