import { describe, expect, it } from 'vitest'
import type { Backend, Guarantees } from '../../src/backend.js'
import { createLocks } from '../../src/client/client.js'
import { InvalidInputError } from '../../src/index.js'
import { MemoryStore, memoryBackend } from '../../src/memory.js'
import {
  type CaseGroup,
  type ConformanceSummary,
  conformanceCases,
  describeBackend,
  type OpenedStore,
  RelayBackend,
  type RunnerGroup,
  type SkipRequest,
} from '../../src/testing.js'
import { CollectingRunner } from './collecting-runner.js'
import { PLANTED } from './planted-faults.js'

function opened(store: MemoryStore, backend: () => Backend): OpenedStore {
  return {
    connect: (options, wrap = (inner) => inner) => createLocks(wrap(backend()), options),
    async sever(name) {
      for (const { ref } of store.inspect(name).holders) store.evict(name, ref)
    },
    crash: { unavailable: 'the store lives and dies with its process' },
    leftovers: async () => store.names('').filter((name) => store.inspect(name).shape !== null),
    close: async () => {},
  }
}

class Declaring extends RelayBackend {
  readonly #declared: Partial<Guarantees>

  constructor(inner: Backend, declared: Partial<Guarantees>) {
    super(inner)
    this.#declared = declared
  }

  override get guarantees(): Guarantees {
    return { ...super.guarantees, ...this.#declared }
  }
}

async function register(
  declared: Partial<Guarantees>,
  skip: readonly SkipRequest[] = [],
): Promise<{ runner: CollectingRunner; summary: ConformanceSummary }> {
  const runner = new CollectingRunner()
  const store = new MemoryStore()
  const open = async (): Promise<OpenedStore> =>
    opened(store, () => new Declaring(memoryBackend(store), declared))
  const summary = await describeBackend({
    name: 'memory',
    describe: runner.describe,
    it: runner.it,
    open,
    skip,
  })
  return { runner, summary }
}

/** The suite over a kind of store, ready to be run case by case. */
async function collect(make: () => OpenedStore, caseLimitMs?: number): Promise<CollectingRunner> {
  const runner = new CollectingRunner()
  const { describe, it } = runner
  const open = async (): Promise<OpenedStore> => make()
  await describeBackend({
    name: 'memory',
    describe,
    it,
    open,
    ...(caseLimitMs === undefined ? {} : { caseLimitMs }),
  })
  return runner
}

/** A case on a broken store may hang. It counts as caught when it takes this many times as long as on a sound store. */
const HANGS_TIMES = 4
const HANGS_MS = 2_000

describe('a planted fault makes the suite fail', () => {
  for (const fault of PLANTED) {
    it.concurrent(fault.mistake, async () => {
      const sound = await collect(() => {
        const store = new MemoryStore()
        return opened(store, () => memoryBackend(store))
      })
      const since = performance.now()
      await sound.run(fault.theme, fault.caughtBy)
      const tookMs = performance.now() - since
      const faulty = await collect(
        () => {
          const store = fault.store?.() ?? new MemoryStore()
          return opened(store, () => fault.plant(memoryBackend(store), store))
        },
        HANGS_MS + HANGS_TIMES * tookMs,
      )
      await expect(faulty.run(fault.theme, fault.caughtBy)).rejects.toThrow()
    })
  }
})

describe('a case that waits in vain', () => {
  it('fails with what it waited for and what the store has', async () => {
    const runner = await collect(() => {
      const store = new MemoryStore()
      return { ...opened(store, () => memoryBackend(store)), sever: async () => {} }
    }, 2_000)
    const title = 'a hold that is severed aborts its signal with a LockLostError and is not held'
    await expect(runner.run('loss', title)).rejects.toThrow(
      /^Within 2000 ms: the case comes to its end\. The store has: [^]*'severed'[^]*holders: \[ \{/,
    )
  })
})

describe('the groups', () => {
  it('are the themes with their tags, and cases that run alone come last', async () => {
    const groups: CaseGroup[] = []
    const { it } = new CollectingRunner()
    const store = new MemoryStore()
    const open = async (): Promise<OpenedStore> => opened(store, () => memoryBackend(store))
    const group: RunnerGroup = (each, body) => {
      groups.push(each)
      body()
    }
    await describeBackend({ name: 'memory', describe: (_, body) => body(), it, group, open })
    expect(new Set(groups.map(({ name }) => name))).toEqual(new Set(conformanceCases().keys()))
    const [first] = groups
    expect(first).toMatchObject({ name: 'exclusion', tags: ['exclusion'], alone: false })
    const alone = groups.map((each) => each.alone)
    expect(alone.lastIndexOf(false)).toBeLessThan(alone.indexOf(true))
    expect(alone).toContain(true)
  })
})

describe('what applies', () => {
  it.each([
    [{ weights: 'none' }, ['shared', 'weights'], "weights: 'none'"],
    [{ fencing: 'none' }, ['fencing'], "fencing: 'none'"],
    [{ fair: false }, ['fairness'], 'fair: false'],
  ] as const)('follows from what is declared: %o', async (declared, themes, reason) => {
    const { runner, summary } = await register(declared)
    for (const theme of themes) {
      const cases = runner.of(theme)
      expect(cases.length).toBeGreaterThan(0)
      for (const each of cases) {
        expect(each.skipped).toBe(true)
        expect(each.title).toContain(reason)
      }
    }
    const explained = summary.skipped.filter(({ theme }) => themes.some((name) => name === theme))
    expect(new Set(explained.map(({ by }) => by))).toEqual(new Set(['guarantee']))
    expect(runner.of('exclusion').some(({ skipped }) => !skipped)).toBe(true)
  })

  it('leaves out what the options name, with the reason in the title', async () => {
    const [title = ''] = conformanceCases().get('naming') ?? []
    const { runner, summary } = await register({}, [
      { theme: 'election', reason: 'not offered' },
      { theme: 'naming', case: title, reason: 'known gap' },
    ])
    expect(runner.of('election').every(({ skipped }) => skipped)).toBe(true)
    expect(runner.of('naming').filter(({ skipped }) => skipped)).toHaveLength(1)
    expect(summary.skipped.filter(({ by }) => by === 'option')).toHaveLength(1 + runner.of('election').length)
    expect(runner.of('naming')[0]?.title).toContain('known gap')
    expect(runner.cases).toHaveLength(summary.total)
  })

  it.each([
    [{ theme: 'election', reason: '' }],
    [{ theme: 'election', reason: '  ' }],
    [{ theme: 'no such theme', reason: 'why not' }],
    [{ theme: 'election', case: 'no such case', reason: 'why not' }],
  ])('refuses a skip that says nothing or names nothing: %o', async (request) => {
    await expect(register({}, [request])).rejects.toThrow(InvalidInputError)
  })
})
