// @module-tag effects
import { connectRecords } from '../../src/connect/records.js'
import { describeRunOver } from './contract/suite.js'

await describeRunOver('memory', () => connectRecords('memory:contract'))
