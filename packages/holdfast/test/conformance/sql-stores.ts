import { randomBytes } from 'node:crypto'
import { storeFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Backend } from '../../src/core/backend.js'
import { describeBackend, type OpenedStore } from '../../src/testing.js'
import { killWhileHolding } from './crash-child.js'

export type SqlStoreName = 'postgres' | 'mariadb' | 'mysql'

export interface SqlVariant {
  readonly recipe: string
  /** Further options of the URL. */
  readonly options?: string
}

/** Opens a backend over a URL of a store. */
export type SqlOpener = (url: string) => Promise<Backend>

/** Each transaction needs a connection of its own, and one case has very many of them. */
const MAX: Readonly<Record<string, number>> = { 'for-update': 220, 'advisory-xact': 220 }

/** One fresh store: tables of its own, or, for recipes without any, names of its own. */
async function openStore(url: string, recipe: string, opener: SqlOpener): Promise<OpenedStore> {
  const tag = randomBytes(5).toString('hex')
  const hasTables = recipe === 'rows' || recipe === 'for-update'
  const own = hasTables ? `${url}&tablePrefix=t${tag}_` : url
  const operator = await createLocks(await opener(own))
  await operator.migrate()
  const taken = new Set<string>()
  return {
    async connect(settings, wrap = (backend) => backend) {
      const backend = await opener(own)
      return await createLocks(wrap(noting(backend, taken)), settings)
    },
    sever: async (name) => void (await operator.evict(name, { reason: 'severed by the suite' })),
    async crash(name, { ttlMs }) {
      taken.add(name)
      return await killWhileHolding('./redis-crash-child.mjs', [own, name, String(ttlMs)])
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

/** Registers the suite for each recipe, one after the other, on one server. */
export async function describeSql(
  store: SqlStoreName,
  variants: readonly SqlVariant[],
  opener: SqlOpener,
): Promise<void> {
  const outcome = await storeFor(store)
  if (outcome.kind === 'not run') {
    it.skip(`${store}: ${variants.map(({ recipe }) => recipe).join(', ')} (not run: ${outcome.reason})`)
    return
  }
  const { url } = outcome.store
  afterAll(() => outcome.store.dispose())
  for (const { recipe, options = '' } of variants) {
    const name = `${store} ${recipe}${options}`
    const open = (): Promise<OpenedStore> =>
      openStore(`${url}?recipe=${recipe}&max=${MAX[recipe] ?? 4}${options}`, recipe, opener)
    const summary = await describeBackend({ name, describe, it, open })
    it(`${name}: left out only what the guarantees explain`, () => {
      expect(summary.skipped.filter(({ by }) => by !== 'guarantee')).toEqual([])
      expect(summary.ran.length + summary.skipped.length).toBe(summary.total)
    })
  }
}
