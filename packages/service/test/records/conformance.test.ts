// @module-tag effects
/** The library over the service keeps records as it does over the store itself: the same suite says so. */

import { remoteRecords } from 'holdfast/remote'
import { describeRecords } from 'holdfast/testing'
import { afterAll, describe, expect, it } from 'vitest'
import { startService } from '../security/running-service.js'

const service = await startService()
afterAll(() => service.close())

const open = async () => ({
  connect: async () => remoteRecords({ hosts: [new URL(service.url).host] }),
  close: async () => {},
})
const summary = await describeRecords({ name: 'http over sqlite', describe, it, afterAll, open })

it('left out only the purge, which the service does itself', () => {
  expect(summary.skipped.map(({ reason }) => reason)).toEqual(['the store removes what is over by itself'])
  expect(summary.ran).toHaveLength(summary.total - 1)
})
