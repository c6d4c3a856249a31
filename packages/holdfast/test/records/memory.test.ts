// @module-tag effects
import { afterAll, describe, expect, it } from 'vitest'
import { MemoryRecords } from '../../src/backends/memory/records.js'
import { CellRecords } from '../../src/backends/shared/cell-records.js'
import { describeRecords } from '../../src/testing.js'
import { playHistories } from './stores.js'

const cells = new MemoryRecords()
const connect = async () => new CellRecords(cells)
const open = async () => ({ connect, close: async () => {} })
const summary = await describeRecords({ name: 'memory', describe, it, afterAll, open })

it('left out only what the traits explain', () => {
  expect(summary.ran.length + summary.skipped.length).toBe(summary.total)
  expect(summary.skipped.map(({ reason }) => reason)).toEqual(
    summary.skipped.map(() => "the store declares `fencing: 'best-effort'`"),
  )
})

it('plays by the rule', () => playHistories(connect))
