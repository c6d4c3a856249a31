// @module-tag exclusion
import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isDeep } from '../../../../test/support/depth.js'
import { titled } from '../../../../test/support/titled.js'
import type { ViolationKind } from '../../src/check/verdict.js'
import type { FaultName } from '../../src/stage/stage.js'
import type { TortureOutcome } from '../../src/torture/outcome.js'
import type { Breakage } from '../../src/torture/protocol.js'

const SCRIPT = fileURLToPath(new URL('./one-run.mjs', import.meta.url))

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-planted-test-'))
})
afterAll(() => {
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 })
})

async function outcomeOf(options: object): Promise<TortureOutcome> {
  const child = fork(SCRIPT, [JSON.stringify({ seconds: 2, workers: 3, seed: 5, faults: [], ...options })], {
    execArgv: [],
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  return await new Promise((resolve, reject) => {
    child.on('message', (message: { outcome?: TortureOutcome; error?: string }) => {
      if (message.outcome !== undefined) resolve(message.outcome)
      if (message.error !== undefined) reject(new Error(message.error))
    })
    child.once('disconnect', () => reject(new Error('The run ended without an outcome.')))
  })
}

interface Planted {
  readonly broken: Breakage
  readonly store: 'memory' | 'sqlite'
  /** Where the breakage shows. All callers meet there. */
  readonly name: string
  readonly kind: ViolationKind
  readonly message: RegExp
}

const PLANTED: readonly Planted[] = [
  { broken: 'unfair', store: 'sqlite', name: 'mutex-1', kind: 'unfair', message: /was served before/ },
  { broken: 'false-loss', store: 'memory', name: 'mutex-1', kind: 'unexplained-loss', message: /evicted/ },
  {
    broken: 'swallowed-loss',
    store: 'memory',
    name: 'mutex-1',
    kind: 'broken-promise',
    message: /although the lock was lost/,
  },
  {
    broken: 'second-leader',
    store: 'sqlite',
    name: 'election-1',
    kind: 'overlap',
    message: /at the same time/,
  },
  {
    broken: 'no-min-hold',
    store: 'memory',
    name: 'options-1',
    kind: 'broken-promise',
    message: /was to hold for/,
  },
  {
    broken: 'leaked-listener',
    store: 'memory',
    name: 'impatient-1',
    kind: 'growth',
    message: /listeners are left/,
  },
  { broken: 'leaked-timer', store: 'memory', name: 'mutex-1', kind: 'growth', message: /Timeout/ },
]

interface BesideFault {
  readonly what: string
  readonly store: string
  readonly fault: FaultName
  readonly options: object
  readonly kinds: readonly ViolationKind[]
  readonly isAdmitted?: boolean
}

const BLIND = { what: 'a lock that takes silence for a grant', options: { broken: 'silence-is-grant' } }

/** Breakages that only these faults bring to light. */
const BESIDE_FAULTS: readonly BesideFault[] = [
  { ...BLIND, store: 'redis', fault: 'half-open', kinds: ['overlap'] },
  { ...BLIND, store: 'redis-sentinel', fault: 'partition', kinds: ['overlap'] },
  // What a promotion can break is seen, and admitted, because the store promises no more.
  { ...BLIND, store: 'redis-sentinel', fault: 'failover-clock', kinds: ['overlap'], isAdmitted: true },
  {
    what: 'a cluster that forgets its keys',
    store: 'redis-cluster',
    fault: 'reshard',
    options: { emptied: 'reshard' },
    kinds: ['overlap'],
  },
]

const DEEP_ONLY = 'skipped: `npm run test:deep` runs it'

describe.concurrent('a run with a lock that is broken on purpose', () => {
  test.each(PLANTED)('$broken is reported as $kind', async ({ broken, store, name, kind, message }) => {
    const { verdict } = await outcomeOf({ broken, store, names: [name] })
    const found = verdict.violations.filter((each) => each.kind === kind && each.admitted === undefined)
    expect(found.map((each) => each.message).join('\n')).toMatch(message)
    expect(verdict.valid).toBe(false)
  })

  describe.skipIf(!isDeep)(titled('on Redis, with a fault', isDeep ? null : DEEP_ONLY), () => {
    test.each(BESIDE_FAULTS)(
      '$what is found beside $fault',
      async ({ store, fault, options, kinds, isAdmitted }) => {
        const { verdict } = await outcomeOf({ store, faults: [fault], seconds: 8, ...options })
        const found = verdict.violations.filter(
          ({ admitted }) => isAdmitted === true || admitted === undefined,
        )
        expect(found.map(({ kind }) => kind)).toEqual(expect.arrayContaining([...kinds]))
      },
    )

    test.each(BESIDE_FAULTS)('without $fault, $what breaks nothing', async ({ store, options }) => {
      const { verdict } = await outcomeOf({ store, faults: [], seconds: 8, ...options })
      expect(verdict.violations).toEqual([])
    })
  })

  test('the same run with a sound lock has no violation', async () => {
    const { verdict, queue, health } = await outcomeOf({ store: 'memory' })
    expect(verdict.violations).toEqual([])
    expect(queue.judged).toBeGreaterThan(0)
    expect(health.map(({ process }) => process)).toEqual(['w1'])
  })
})
