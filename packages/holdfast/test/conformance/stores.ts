import { randomBytes } from 'node:crypto'
import { storeFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Backend } from '../../src/core/backend.js'
import { describeBackend, type OpenedStore } from '../../src/testing.js'
import { killWhileHolding } from './crash-child.js'

/** One way to run the suite on a store. */
export interface Variant {
  readonly recipe: string
  /** The URL of a fresh part of the store, with tables, keys or at least names that no other case has. */
  readonly urlFor: (url: string, tag: string) => string
  /** Whether something must be made there first. */
  readonly migrates?: boolean
}

export type Opener = (url: string) => Promise<Backend>

async function openStore(url: string, opener: Opener, migrates: boolean): Promise<OpenedStore> {
  const operator = await createLocks(await opener(url))
  if (migrates) await operator.migrate()
  const taken = new Set<string>()
  return {
    connect: async (settings, wrap = (backend) => backend) =>
      await createLocks(wrap(noting(await opener(url), taken)), settings),
    sever: async (name) => void (await operator.evict(name, { reason: 'severed by the suite' })),
    async crash(name, { ttlMs }) {
      taken.add(name)
      return await killWhileHolding('./redis-crash-child.mjs', [url, name, String(ttlMs)])
    },
    leftovers: () => (operator.guarantees.shows === 'claims' ? listed(operator) : held(operator, taken)),
    close: () => operator.close(),
  }
}

/** Remembers every name that was asked for, because some recipes keep none. */
function noting(backend: Backend, taken: Set<string>): Backend {
  const attempt = backend.attempt.bind(backend)
  backend.attempt = (claim, patience) => {
    taken.add(claim.resource)
    return attempt(claim, patience)
  }
  return backend
}

async function listed(operator: Locks): Promise<string[]> {
  const names: string[] = []
  for await (const { resource } of operator.list()) names.push(resource)
  return names
}

async function held(operator: Locks, taken: ReadonlySet<string>): Promise<string[]> {
  const names: string[] = []
  for (const name of taken) if ((await operator.inspect(name)).shape !== null) names.push(name)
  return names
}

/** Registers the suite for each recipe, one after the other, on one store. */
export async function describeStore(
  store: string,
  variants: readonly Variant[],
  opener: Opener,
): Promise<void> {
  const outcome = await storeFor(store)
  if (outcome.kind === 'not run') {
    it.skip(`${store}: ${variants.map(({ recipe }) => recipe).join(', ')} (not run: ${outcome.reason})`)
    return
  }
  afterAll(() => outcome.store.dispose())
  for (const { recipe, urlFor, migrates = false } of variants) {
    const name = `${store} ${recipe}`
    const open = (): Promise<OpenedStore> =>
      openStore(urlFor(outcome.store.url, `t${randomBytes(5).toString('hex')}`), opener, migrates)
    const summary = await describeBackend({ name, describe, it, open })
    it(`${name}: left out only what the guarantees explain`, () => {
      expect(summary.skipped.filter(({ by }) => by !== 'guarantee')).toEqual([])
      expect(summary.ran.length + summary.skipped.length).toBe(summary.total)
    })
  }
}
