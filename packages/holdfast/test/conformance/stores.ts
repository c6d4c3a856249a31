import { randomBytes } from 'node:crypto'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, expect, it } from 'vitest'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Backend } from '../../src/core/backend.js'
import { describeBackend, type OpenedStore } from '../../src/testing.js'
import { conformanceRunner } from '../support/conformance-runner.js'
import { skippedOn } from './cluster-themes.js'
import { Corner } from './corner.js'
import { killWhileHolding } from './crash-child.js'

/** One way to run the suite on a store. */
export interface Variant {
  readonly recipe: string
  /** The URL of a fresh part of the store, with tables, keys or at least names that no other case has. */
  readonly urlFor: (url: string, tag: string) => string
  /** Whether something must be made there first. */
  readonly migrates?: boolean
  /** Whether `urlFor` cannot keep cases apart, because the recipe has neither tables nor prefixes. */
  readonly sharesNames?: boolean
}

export type Opener = (url: string) => Promise<Backend>

interface Separation {
  readonly migrates: boolean
  /** What all names of the case begin with at the store. */
  readonly corner: string
}

async function openStore(
  url: string,
  opener: Opener,
  { migrates, corner }: Separation,
): Promise<OpenedStore> {
  const opened = async (): Promise<Backend> =>
    corner === '' ? await opener(url) : new Corner(await opener(url), corner)
  const operator = await createLocks(await opened(), { requestMs: 30_000 })
  if (migrates) await operator.migrate()
  const taken = new Set<string>()
  return {
    connect: async (settings, wrap = (backend) => backend) =>
      await createLocks(wrap(noting(await opened(), taken)), settings),
    sever: async (name) => void (await operator.evict(name, { reason: 'severed by the suite' })),
    async crash(name, { ttlMs }) {
      taken.add(name)
      return await killWhileHolding('./redis-crash-child.mjs', [url, corner + name, String(ttlMs)])
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
  const outcome = await sharedStoreFor(store)
  if (outcome.kind === 'not run') {
    it.skip(`${store}: ${variants.map(({ recipe }) => recipe).join(', ')} (not run: ${outcome.reason})`)
    return
  }
  afterAll(() => outcome.store.dispose())
  for (const { recipe, urlFor, migrates = false, sharesNames = false } of variants) {
    const name = `${store} ${recipe}`
    const open = (): Promise<OpenedStore> => {
      const tag = `t${randomBytes(5).toString('hex')}`
      const corner = sharesNames ? `${tag}:` : ''
      return openStore(urlFor(outcome.store.url, tag), opener, { migrates, corner })
    }
    const summary = await describeBackend({ name, ...conformanceRunner, open, skip: skippedOn(store) })
    it(`${name}: left out only what the guarantees explain`, () => {
      const expected = new Set(skippedOn(store).map(({ theme }) => theme))
      const others = summary.skipped.filter(({ by, theme }) => by !== 'guarantee' && !expected.has(theme))
      expect(others).toEqual([])
      expect(summary.ran.length + summary.skipped.length).toBe(summary.total)
    })
  }
}
