import { randomBytes } from 'node:crypto'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, expect, it } from 'vitest'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Backend } from '../../src/core/backend.js'
import { describeBackend, type OpenedStore, RelayBackend, type SkipRequest } from '../../src/testing.js'
import { conformanceRunner } from '../support/conformance-runner.js'
import { Corner } from './corner.js'
import { killWhileHolding } from './crash-child.js'
import { skippedOn } from './skipped-themes.js'

/** One way to run the suite on a store. */
export interface Variant {
  readonly recipe: string
  /** The URL of a fresh part of the store. */
  readonly urlFor: (url: string, tag: string) => string
  /** Whether all cases share one part, because tables must be made in it first. Each case has names of its own there. */
  readonly sharesPart?: boolean
  /** Themes that another variant runs. */
  readonly skip?: readonly SkipRequest[]
}

export type Opener = (url: string) => Promise<Backend>

/** A backend that outlives the client of one case. */
class Lasting extends RelayBackend {
  override async open(): Promise<void> {}

  override async close(): Promise<void> {}
}

/** A part of the store, and the client that looks after it beside the clients of a case. */
interface Part {
  readonly url: string
  /** What all names of the case begin with at the store. */
  readonly corner: string
  readonly operator: Backend
}

function cornered(backend: Backend, corner: string): Backend {
  return corner === '' ? backend : new Corner(backend, corner)
}

async function openStore({ url, corner, operator: backend }: Part, opener: Opener): Promise<OpenedStore> {
  const operator = await createLocks(cornered(backend, corner), { requestMs: 30_000 })
  const taken = new Set<string>()
  return {
    connect: async (settings, wrap = (backend) => backend) =>
      await createLocks(wrap(noting(cornered(await opener(url), corner), taken)), settings),
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

function freshTag(): string {
  return `t${randomBytes(5).toString('hex')}`
}

function onPartsOfTheirOwn(fresh: () => string, opener: Opener): () => Promise<OpenedStore> {
  return async () => {
    const url = fresh()
    return await openStore({ url, corner: '', operator: await opener(url) }, opener)
  }
}

/** Tables are made once, and one connection looks after all cases: both cost a server more than most cases do. */
function onOnePart(url: string, opener: Opener): () => Promise<OpenedStore> {
  let keeper: Promise<Keeper> | undefined
  afterAll(async () => await (await keeper)?.locks.close())
  return async () => {
    keeper ??= keeperOf(url, opener)
    const operator = new Lasting((await keeper).backend)
    return await openStore({ url, corner: `${freshTag()}:`, operator }, opener)
  }
}

interface Keeper {
  readonly locks: Locks
  readonly backend: Backend
}

async function keeperOf(url: string, opener: Opener): Promise<Keeper> {
  const backend = await opener(url)
  const locks = await createLocks(backend)
  await locks.migrate()
  return { locks, backend }
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
  for (const { recipe, urlFor, sharesPart = false, skip: ownSkip = [] } of variants) {
    const skip = [...skippedOn(store), ...ownSkip]
    const name = `${store} ${recipe}`
    const fresh = (): string => urlFor(outcome.store.url, freshTag())
    const open = sharesPart ? onOnePart(fresh(), opener) : onPartsOfTheirOwn(fresh, opener)
    const summary = await describeBackend({ name, ...conformanceRunner, open, skip })
    it(`${name}: left out only what the guarantees explain`, () => {
      const expected = new Set(skip.map(({ theme }) => theme))
      const others = summary.skipped.filter(({ by, theme }) => by !== 'guarantee' && !expected.has(theme))
      expect(others).toEqual([])
      expect(summary.ran.length + summary.skipped.length).toBe(summary.total)
    })
  }
}
