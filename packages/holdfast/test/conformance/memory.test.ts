import { expect, it } from 'vitest'
import { createLocks } from '../../src/client/client.js'
import { MemoryStore, memoryBackend } from '../../src/memory.js'
import { describeBackend, type OpenedStore } from '../../src/testing.js'
import { conformanceRunner } from '../support/conformance-runner.js'

async function open(): Promise<OpenedStore> {
  const store = new MemoryStore()
  return {
    connect: (options, wrap = (backend) => backend) => createLocks(wrap(memoryBackend(store)), options),
    async sever(name) {
      for (const { ref } of store.inspect(name).holders) store.evict(name, ref)
    },
    crash: { unavailable: 'the store lives and dies with its process' },
    leftovers: async () => store.names('').filter((name) => store.inspect(name).shape !== null),
    close: async () => {},
  }
}

const summary = await describeBackend({ name: 'memory', ...conformanceRunner, open })

it('ran every case that its guarantees and its one process do not rule out', () => {
  expect(summary.ran.length + summary.skipped.length).toBe(summary.total)
  expect(summary.skipped.filter(({ by }) => by !== 'hook')).toEqual([])
})
