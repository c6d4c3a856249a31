/** Names that are taken in opposite orders, noticed before they ever deadlock. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { env } from 'node:process'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import { InvalidInputError, LockOrderError } from '../../src/core/errors.js'
import type { HoldfastEvent, LockOrderEvent } from '../../src/core/events.js'
import { LockOrder, type LockOrderOptions } from '../../src/core/lock-order.js'
import type { ClientOptions } from '../../src/core/options.js'

const warnings: (Error & { code?: string; detail?: string })[] = []
const events: LockOrderEvent[] = []
const onWarning = (warning: Error): void => void warnings.push(warning)
const onEvent = (message: unknown): void => {
  const event = message as HoldfastEvent
  if (event.type === 'lock-order') events.push(event)
}

/** What is known of orders is one for the whole process, so each test has names of its own. */
let test = 0
const name = (text: string): string => `${test}:${text}`
const clients: Locks[] = []

async function client(lockOrder?: ClientOptions['lockOrder'], store?: MemoryStore): Promise<Locks> {
  const locks = await createLocks(memoryBackend(store), lockOrder === undefined ? {} : { lockOrder })
  clients.push(locks)
  return locks
}

beforeEach(() => {
  test += 1
  process.on('warning', onWarning)
  subscribe('holdfast', onEvent)
})

afterEach(async () => {
  process.off('warning', onWarning)
  unsubscribe('holdfast', onEvent)
  warnings.length = 0
  events.length = 0
  await Promise.all(clients.splice(0).map((locks) => locks.close()))
})

/** Warnings are told in the next turn. */
async function told(): Promise<typeof warnings> {
  await new Promise((resolve) => {
    setImmediate(resolve)
  })
  return warnings
}

async function nest(locks: Locks, ...names: readonly string[]): Promise<void> {
  const [first, ...inner] = names
  if (first !== undefined) await locks.mutex(name(first)).run(() => nest(locks, ...inner))
}

async function takeInOneOrder(locks: Locks): Promise<void> {
  await nest(locks, 'a', 'b')
}

async function takeInTheOther(locks: Locks): Promise<void> {
  await nest(locks, 'b', 'a')
}

describe('two names in opposite orders', () => {
  it('are told of once, before they deadlock, with both stacks', async () => {
    const locks = await client('warn')
    await takeInOneOrder(locks)
    await takeInOneOrder(locks)
    expect(await told()).toEqual([])
    await takeInTheOther(locks)
    await takeInTheOther(locks)
    const [warning, ...more] = await told()
    expect(more).toEqual([])
    expect(warning).toMatchObject({ name: 'HoldfastWarning', code: 'HOLDFAST_LOCK_ORDER' })
    expect(warning?.message).toContain(
      `"${name('a')}" is taken while "${name('b')}" is held, and before that "${name('b')}"`,
    )
    expect(warning?.detail).toMatch(/takeInTheOther[^]*takeInOneOrder/)
    expect(warning?.detail).not.toMatch(/desk\.ts|node:/)
    expect(events).toMatchObject([{ type: 'lock-order', backend: 'memory', resource: name('a') }])
    expect(events[0]?.inversion.before.map(({ held, taken }) => [held, taken])).toEqual([
      [name('a'), name('b')],
    ])
  })

  it('are refused before anything is acquired, each time, where it is to throw', async () => {
    const locks = await client('throw')
    await takeInOneOrder(locks)
    for (let time = 0; time < 2; time += 1) {
      const error: unknown = await takeInTheOther(locks).catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(LockOrderError)
      expect(error).toMatchObject({ code: 'LOCK_ORDER', resource: name('a'), backend: 'memory' })
      expect((error as LockOrderError).message).toContain('takeInOneOrder')
    }
    expect((await locks.inspect(name('a'))).holders).toEqual([])
    await takeInOneOrder(locks)
    expect(await told()).toEqual([])
  })

  it('are found over more than two names, and over two clients', async () => {
    const store = new MemoryStore()
    const [one, two] = [await client('warn', store), await client('warn', store)]
    await nest(one, 'a', 'b')
    await nest(two, 'b', 'c')
    await one.mutex(name('c')).run(() => two.mutex(name('a')).run(() => {}))
    expect((await told()).map(({ code }) => code)).toEqual(['HOLDFAST_LOCK_ORDER'])
    expect(events[0]?.inversion.before).toHaveLength(2)
  })

  it('are found where names are acquired without run(), in a flow', async () => {
    const locks = await client('throw')
    await locks.flow(async () => {
      await using _a = await locks.mutex(name('a')).acquire()
      await using _b = await locks.mutex(name('b')).acquire()
    })
    const other = locks.flow(async () => {
      await using _b = await locks.semaphore(name('b'), 1).acquire()
      await using _a = await locks.readWrite(name('a')).write().acquire()
    })
    await expect(other).rejects.toThrow(LockOrderError)
  })
})

describe('no order', () => {
  it('is seen in what is released before, what is only tried, what is outside a flow, and what re-enters', async () => {
    const locks = await client('throw')
    await nest(locks, 'a', 'b')
    await locks.flow(async () => {
      const b = await locks.mutex(name('b')).acquire()
      await b.release()
      await (await locks.mutex(name('a')).acquire()).release()
    })
    await locks.mutex(name('b')).run(async () => {
      const tried = await locks.mutex(name('a')).tryAcquire()
      await tried?.release()
    })
    const b = await locks.mutex(name('b')).acquire()
    await (await locks.mutex(name('a')).acquire()).release()
    await b.release()
    const again = locks.mutex(name('a'), { reentrant: true })
    await again.run(() => locks.mutex(name('b')).run(() => again.run(() => {})))
  })

  it('is among the names of one all(), but between them and others', async () => {
    const locks = await client('throw')
    await locks.all([name('a'), name('b')]).run(() => {})
    await nest(locks, 'b', 'a')
    await locks.mutex(name('z')).run(() => locks.all([name('c'), name('d')]).run(() => {}))
    const other = locks.all([name('c'), name('d')]).run(() => locks.mutex(name('z')).run(() => {}))
    await expect(other).rejects.toThrow(LockOrderError)
    // Noticed before the first of them is taken.
    await nest(locks, 'f', 'y')
    const late = locks.mutex(name('y')).run(() => locks.all([name('e'), name('f')]).run(() => {}))
    await expect(late).rejects.toThrow(LockOrderError)
    expect((await locks.inspect(name('e'))).holders).toEqual([])
  })

  it('is kept where nobody asked for it', async () => {
    const locks = await client()
    await takeInOneOrder(locks)
    await takeInTheOther(locks)
    expect(await told()).toEqual([])
  })
})

describe('groups', () => {
  const group = (text: string): string => text.replace(/\d+$/, '')
  const throwing: LockOrderOptions = { mode: 'throw', group }

  it('have one order for all their names, and each name has its own inside of a group', async () => {
    const locks = await client(throwing)
    await nest(locks, 'account1', 'ledger1')
    await expect(nest(locks, 'ledger7', 'account9')).rejects.toThrow(LockOrderError)
    await nest(locks, 'account1', 'account2')
    await nest(locks, 'account2', 'account3')
    await expect(nest(locks, 'account3', 'account1')).rejects.toThrow(LockOrderError)
  })
})

describe('what is remembered', () => {
  const at = (text: string): { store: string; name: string } => ({ store: 's', name: text })

  it('is bounded, and what there is no room for is still compared, and told of once', () => {
    const order = new LockOrder(3)
    const check = (held: string, taken: string, mode: 'warn' | 'throw' = 'warn'): unknown =>
      order.check(at(held), at(taken), { mode }, () => 'somewhere')
    for (let n = 0; n < 100; n += 1) expect(check(`n${n}`, `n${n + 1}`)).toBeNull()
    expect(check('n1', 'n0')).not.toBeNull()
    expect(check('n1', 'n0')).toBeNull()
    expect(check('n9', 'n8')).toBeNull()
  })

  it('takes no stack for what it knows', () => {
    const order = new LockOrder()
    let stacks = 0
    const stackOf = (): string => `stack ${++stacks}`
    for (let n = 0; n < 10; n += 1) order.check(at('a'), at('b'), { mode: 'warn' }, stackOf)
    expect(stacks).toBe(1)
    expect(
      order.check({ store: 'other', name: 'b' }, { store: 'other', name: 'a' }, { mode: 'warn' }, stackOf),
    ).toBeNull()
  })
})

describe('options', () => {
  afterEach(() => {
    delete env['HOLDFAST_LOCK_ORDER']
  })

  it('come from the environment where the program says nothing', async () => {
    env['HOLDFAST_LOCK_ORDER'] = 'throw'
    const asked = await client()
    await takeInOneOrder(asked)
    await expect(takeInTheOther(asked)).rejects.toThrow(LockOrderError)
    await takeInTheOther(await client('off'))
    env['HOLDFAST_LOCK_ORDER'] = 'loud'
    await expect(client()).rejects.toThrow(InvalidInputError)
  })

  it.each([
    { lockOrder: 'loud' },
    { lockOrder: { mode: 'off' } },
    { lockOrder: { mode: 'warn', group: 'account' } },
    { lockOrder: { mode: 'warn', more: 1 } },
    { lockOrder: null },
    { deadlocks: 'yes' },
    { deadlocks: 'detect', deadlockCheckMs: 0 },
  ])('are refused where they are wrong: %o', async (options) => {
    const opening = createLocks(memoryBackend(), options as ClientOptions)
    await expect(opening).rejects.toThrow(InvalidInputError)
  })
})
