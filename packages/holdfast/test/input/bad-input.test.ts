// @module-tag limits
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FenceGate } from '../../src/fencing.js'
import { connect, createLocks, type Hold, type Locks } from '../../src/index.js'
import {
  notBoolean,
  notFunction,
  notInteger,
  notMs,
  notName,
  notOptions,
  notSignal,
  notText,
  strange,
} from './bad-values.js'
import { optionProbes, type Probe, testProbes } from './probe.js'
import { casesTried, expectRefused } from './refusal.js'
import { WatchedBackend } from './watched-backend.js'

const HOLD_KEYS = ['ttlMs', 'renew', 'minHoldMs', 'maxHoldMs', 'note']
const ACQUIRE_KEYS = [...HOLD_KEYS, 'waitMs', 'signal']
const CLIENT_KEYS = ['ttlMs', 'requestMs', 'outageMs', 'waiterLeaseMs', 'skewMs', 'requireFence']
const INT32_MAX = 2 ** 31 - 1
const CASES_MIN = 10_000

/** The options of a hold, each with what is wrong for it. */
const HOLD_OPTIONS: ReadonlyMap<string, fc.Arbitrary<unknown>> = new Map([
  ['ttlMs', notInteger(50, INT32_MAX)],
  ['renew', notBoolean],
  ['minHoldMs', notMs(0)],
  ['maxHoldMs', notMs(1)],
  ['note', notText(1_024)],
])

const ACQUIRE_OPTIONS: ReadonlyMap<string, fc.Arbitrary<unknown>> = new Map([
  ...HOLD_OPTIONS,
  ['waitMs', notMs(0)],
  ['signal', notSignal],
])

const backend = new WatchedBackend()
const other = new WatchedBackend({ ttlMinMs: 10_000, ttlMaxMs: 86_400_000, ttlStepMs: 1_000 })
let locks: Locks
let otherLocks: Locks
let closing: Locks
let hold: Hold

beforeAll(async () => {
  locks = await createLocks(backend)
  otherLocks = await createLocks(other)
  closing = await createLocks(backend)
  // So long that no renewal falls into the tests, which keep the event loop busy for seconds.
  hold = await locks.mutex('held').acquire({ ttlMs: 3_600_000 })
})

afterAll(async () => {
  await hold.release()
  await Promise.all([locks.close(), otherLocks.close(), closing.close()])
})

function clientProbes(): Probe[] {
  const options = new Map([
    ['ttlMs', notInteger(50, INT32_MAX)],
    ['requestMs', notMs(1)],
    ['outageMs', notMs(0)],
    ['waiterLeaseMs', notMs(50)],
    ['skewMs', notMs(0)],
    ['requireFence', notBoolean],
  ])
  const notUrl = fc.oneof(
    strange,
    fc.constantFrom('', 'x', ':', '//', 'redis', 'nosuch:', '\u009b31m:x', '\ud800:', 'sqlite', ' memory:'),
    fc.constantFrom(
      'memory:\0',
      'memory:\r\n',
      `memory:${'n'.repeat(5_000)}`,
      'sqlite:%',
      'sqlite:\0',
      'sqlite:%00',
    ),
    fc.string({ unit: 'binary', maxLength: 60 }).map((text) => `nosuch-${text}`),
  )
  return [
    ...optionProbes('createLocks', CLIENT_KEYS, options, (bad) => createLocks(backend, bad)),
    ...optionProbes('connect', CLIENT_KEYS, options, (bad) => connect('memory:', bad)),
    { what: 'connect: url', bad: notUrl, call: (bad) => connect(bad) },
    {
      what: 'createLocks: backend',
      bad: fc.oneof(strange, fc.constantFrom('memory:', 1)),
      call: (bad) => createLocks(bad),
    },
  ]
}

function constructorProbes(): Probe[] {
  const mutexOptions = new Map([...HOLD_OPTIONS, ['reentrant', notBoolean]])
  const notLocks = fc.oneof(
    strange.filter((value) => !Array.isArray(value) || !value.every((item) => typeof item === 'string')),
    fc.constantFrom<unknown>(
      [],
      ['a', 'a'],
      // With holes, which most methods of an array pass over.
      Object.assign([], { length: 3 }),
      Object.assign(['a'], { 2: 'b' }),
      Array.from({ length: 65 }, String),
      'a',
    ),
    fc.constantFrom<unknown>([{ acquire: 1, name: 'a' }], [{ acquire: () => {}, name: 2 }], [undefined]),
    fc.array(notName, { minLength: 1, maxLength: 3 }),
  )
  return [
    { what: 'mutex: name', bad: notName, call: (bad) => locks.mutex(bad) },
    { what: 'readWrite: name', bad: notName, call: (bad) => locks.readWrite(bad) },
    { what: 'semaphore: name', bad: notName, call: (bad) => locks.semaphore(bad, 3) },
    { what: 'semaphore: limit', bad: notInteger(1, INT32_MAX), call: (bad) => locks.semaphore('x', bad) },
    { what: 'election: name', bad: notName, call: (bad) => locks.election(bad) },
    { what: 'all: locks', bad: notLocks, call: (bad) => locks.all(bad) },
    ...optionProbes('mutex', [...HOLD_KEYS, 'reentrant'], mutexOptions, (bad) => locks.mutex('x', bad)),
    ...optionProbes('readWrite', HOLD_KEYS, HOLD_OPTIONS, (bad) => locks.readWrite('x', bad)),
    ...optionProbes('semaphore', HOLD_KEYS, HOLD_OPTIONS, (bad) => locks.semaphore('x', 3, bad)),
    ...optionProbes('election', HOLD_KEYS, HOLD_OPTIONS, (bad) => locks.election('x', bad)),
    {
      what: 'mutex: ttlMs of a store with steps',
      bad: fc.oneof(notInteger(10_000, 86_400_000), fc.constantFrom(10_001, 15_500, 9_000, 86_401_000)),
      call: (bad) => otherLocks.mutex('x', { ttlMs: bad }),
    },
  ]
}

function acquireProbes(): Probe[] {
  const permits = new Map([...ACQUIRE_OPTIONS, ['permits', notInteger(1, 3)]])
  const all = (): ReturnType<Locks['all']> => locks.all(['a', locks.mutex('b')])
  const lockables = [
    ['mutex', () => locks.mutex('x')],
    ['read', () => locks.readWrite('x').read()],
    ['write', () => locks.readWrite('x').write()],
    ['election', () => locks.election('x')],
    ['all', all],
  ] as const
  const probes = lockables.flatMap(([what, lock]) => [
    ...optionProbes(`${what}.acquire`, ACQUIRE_KEYS, ACQUIRE_OPTIONS, (bad) => lock().acquire(bad)),
    ...optionProbes(`${what}.tryAcquire`, ACQUIRE_KEYS, ACQUIRE_OPTIONS, (bad) => lock().tryAcquire(bad)),
    ...optionProbes(`${what}.run`, ACQUIRE_KEYS, ACQUIRE_OPTIONS, (bad) => lock().run(() => 1, bad)),
    { what: `${what}.run: fn`, bad: notFunction, call: (bad: never) => lock().run(bad) },
  ])
  const semaphore = (): ReturnType<Locks['semaphore']> => locks.semaphore('x', 3)
  const semaphoreKeys = [...ACQUIRE_KEYS, 'permits']
  const reentrant = (): ReturnType<Locks['mutex']> => locks.mutex('held', { reentrant: true })
  return [
    ...probes,
    ...optionProbes('semaphore.acquire', semaphoreKeys, permits, (bad) => semaphore().acquire(bad)),
    ...optionProbes('semaphore.tryAcquire', semaphoreKeys, permits, (bad) => semaphore().tryAcquire(bad)),
    ...optionProbes('semaphore.run', semaphoreKeys, permits, (bad) => semaphore().run(() => 1, bad)),
    ...optionProbes('election.campaign', ACQUIRE_KEYS, ACQUIRE_OPTIONS, (bad) =>
      locks.election('x').campaign(bad),
    ),
    ...optionProbes('mutex.acquire, re-entered', ACQUIRE_KEYS, ACQUIRE_OPTIONS, (bad) => {
      const mutex = reentrant()
      return mutex.within(hold, () => mutex.acquire(bad))
    }),
  ]
}

function holdProbes(): Probe[] {
  const notHold = fc.oneof(strange, fc.constantFrom<unknown>(undefined, 0, '', 'x', { assertHeld: 1 }))
  return [
    { what: 'hold.extend', bad: notInteger(50, INT32_MAX), call: (bad) => hold.extend(bad) },
    { what: 'mutex.within: hold', bad: notHold, call: (bad) => locks.mutex('held').within(bad, () => 1) },
    { what: 'mutex.within: fn', bad: notFunction, call: (bad) => locks.mutex('held').within(hold, bad) },
  ]
}

function operatorProbes(): Probe[] {
  const reason = new Map([['reason', fc.oneof(notText(1_024), fc.constantFrom(undefined, ''))]])
  const observe = new Map([
    ['everyMs', notMs(1)],
    ['signal', notSignal],
  ])
  const evictKeys = ['reason', 'ref']
  return [
    { what: 'inspect', bad: notName, call: (bad) => locks.inspect(bad) },
    { what: 'list', bad: notText(512), call: (bad) => locks.list(bad) },
    { what: 'evict: name', bad: notName, call: (bad) => locks.evict(bad, { reason: 'test' }) },
    { what: 'evict: ref', bad: notName, call: (bad) => locks.evict('x', { reason: 'test', ref: bad }) },
    {
      what: 'evict: stray keys',
      bad: notOptions(evictKeys, { reason: 'x' }),
      call: (bad) => locks.evict('x', bad),
    },
    ...optionProbes('evict', evictKeys, reason, (bad) => locks.evict('x', bad)),
    ...optionProbes('close', ['drainMs'], new Map([['drainMs', notMs(0)]]), (bad) => closing.close(bad)),
    ...optionProbes('election.observe', ['everyMs', 'signal'], observe, (bad) =>
      locks.election('x').observe(bad),
    ),
  ]
}

function gateProbes(): Probe[] {
  const gate = new FenceGate()
  gate.pass('seen', 5n)
  const notFence = fc.oneof(
    strange.filter((value) => typeof value !== 'bigint'),
    fc.bigInt({ max: -1n }),
    fc.bigInt({ min: 2n ** 63n }),
    fc.constantFrom<unknown>(
      undefined,
      0,
      7,
      Number.NaN,
      '',
      '1',
      '7',
      2n ** 63n,
      -1n,
      -(10n ** 900n),
      10n ** 900n,
    ),
  )
  return [
    { what: 'FenceGate.pass: resource', bad: notName, call: (bad) => gate.pass(bad, 7n) },
    { what: 'FenceGate.pass: fence', bad: notFence, call: (bad) => gate.pass('x', bad) },
    { what: 'FenceGate.highest', bad: notName, call: (bad) => gate.highest(bad) },
    { what: 'FenceGate.restore: resource', bad: notName, call: (bad) => gate.restore(bad, 7n) },
    { what: 'FenceGate.restore: fence', bad: notFence, call: (bad) => gate.restore('seen', bad) },
    { what: 'FenceGate.forget', bad: notName, call: (bad) => gate.forget(bad) },
  ]
}

describe('bad input is refused before anything reaches the store', () => {
  testProbes('opening', backend, clientProbes())
  testProbes('defining', backend, constructorProbes())
  testProbes('acquiring', backend, acquireProbes())
  testProbes('holding', backend, holdProbes())
  testProbes('operating', backend, operatorProbes())
  testProbes('guarding', backend, gateProbes())

  it('refuses what the store cannot do, at construction', async () => {
    const bare = new WatchedBackend({ weights: 'none', limitMax: 1, fencing: 'none' })
    const client = await createLocks(bare)
    await expectRefused(bare, () => client.readWrite('x'))
    await expectRefused(bare, () => client.semaphore('x', 3))
    await expectRefused(bare, () => createLocks(bare, { requireFence: true }))
    const small = new WatchedBackend({ limitMax: 100, nameBytesMax: 64 })
    const smallClient = await createLocks(small)
    await expectRefused(small, () => smallClient.semaphore('x', 101))
    await expectRefused(small, () => smallClient.readWrite('x'))
    await expectRefused(small, () => smallClient.mutex('n'.repeat(65)))
    await client.close()
    await smallClient.close()
  })

  it('refuses options that only together are wrong', async () => {
    await expectRefused(backend, () => locks.mutex('x', { minHoldMs: 20, maxHoldMs: 10 }))
    await expectRefused(backend, () => locks.mutex('x', { maxHoldMs: 10 }).acquire({ minHoldMs: 20 }))
    await expectRefused(backend, () => locks.mutex('x', { minHoldMs: 20 }).acquire({ maxHoldMs: 10 }))
    // With as much skew as lease there is nothing left to hold, so no acquire could ever succeed.
    await expectRefused(backend, () => createLocks(backend, { ttlMs: 1_000, skewMs: 1_000 }))
  })

  it('never lets a password of a URL into a message', async () => {
    const urls = [
      'nosuch://u:hunter2@h',
      'u:hunter2@h',
      `redis://u:hunter2@${'h'.repeat(5_000)}`,
      'sqlite://u:hunter2@%',
    ]
    for (const url of urls) {
      const error = await connect(url).then(
        () => null,
        (reason: unknown) => reason,
      )
      expect(String(error)).not.toContain('hunter2')
    }
  })

  it('tried enough, and the store has heard of nothing since', async () => {
    const calls = backend.allCalls
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(backend.allCalls).toBe(calls)
    expect(casesTried()).toBeGreaterThanOrEqual(CASES_MIN)
    console.log(`bad input: ${casesTried()} cases`)
  })
})
