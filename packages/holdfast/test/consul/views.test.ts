import { describe, expect, it } from 'vitest'
import { Keys } from '../../src/backends/consul/keys.js'
import type { ConsulStore } from '../../src/backends/consul/kv.js'
import { Views } from '../../src/backends/consul/views.js'
import { BackendUnavailableError, UnsupportedError } from '../../src/core/errors.js'

/** A store with two names, of which the first cannot be read. */
function viewsWith(error: Error): Views {
  const store = {
    names: async () => ['a/.lock', 'b/.lock'],
    get: async (key: string) => {
      if (key.startsWith('a')) throw error
      return { pair: null, index: 1n }
    },
    tree: async () => ({ pairs: [], index: 1n }),
  }
  return new Views(store as unknown as ConsulStore, new Keys('', false))
}

async function namesOf(views: Views): Promise<string[]> {
  const names: string[] = []
  for await (const { resource } of views.list('')) names.push(resource)
  return names
}

describe('list() of Consul', () => {
  it('passes over a key that is no lock', async () => {
    expect(await namesOf(viewsWith(new UnsupportedError('That is no lock.')))).toEqual([])
  })

  it('rejects when the agent does not answer, and does not leave names out', async () => {
    const away = new BackendUnavailableError('Connection refused.')
    await expect(namesOf(viewsWith(away))).rejects.toBe(away)
  })
})
