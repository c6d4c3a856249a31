// @module-tag exclusion
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProxy } from 'holdfast-servers'
import { describe, expect, test } from 'vitest'
import { turns, until, within } from '../../../../test/support/wait.js'
import { BackendUnavailableError } from '../../src/index.js'
import { abortOf } from '../support/aborts.js'
import {
  afterwards,
  connectionsAt,
  endConnections,
  freshName,
  type Keeping,
  onEach,
  type Party,
  partyAt,
  reasonOf,
  rejection,
  type SqlTarget,
  sqlTargets,
} from './recipes.js'

/** So long that nothing can be explained by a lease that ended. */
const LONG = { ttlMs: 60_000, waiterLeaseMs: 60_000 }
/** What is done when the end of a socket is heard of is done there and then, and needs few turns of the event loop. */
const PROMPT_TURNS = 20

/**
 * Settles when the connection has ended that has the lock. A client of session locks opens it first, and one of transaction locks
 * second, after the one that asks after the others.
 */
function endOf({ sockets }: Party, keeping: Keeping): Promise<void> {
  const socket = sockets[keeping === 'session' ? 0 : 1]
  return new Promise((resolve) => {
    const ended = (): void => resolve()
    // Whichever comes first.
    for (const event of ['end', 'error', 'close']) socket?.once(event, ended)
  })
}

/** Lets the server end connections that were idle for a second, from the next connection on. */
async function endIdleConnections({ server, store }: SqlTarget): Promise<void> {
  const settings = ['idle_session_timeout', 'idle_in_transaction_session_timeout']
  if (store === 'postgres') {
    for (const each of settings) await server.query(`ALTER DATABASE postgres SET ${each} = '1s'`)
    afterwards(() => server.query('ALTER DATABASE postgres RESET ALL'))
  } else {
    await server.query('SET GLOBAL wait_timeout = 1')
    afterwards(() => server.query('SET GLOBAL wait_timeout = 28800'))
  }
}

const targets = await sqlTargets()

describe.each(targets)('connections: $title', (target) => {
  const { keeping } = target

  test('that the server ends are noticed at once, and whoever waits goes on', async () => {
    const waiter = await partyAt(target, LONG)
    const before = new Set(await connectionsAt(target))
    const holder = await partyAt(target, LONG)
    const name = freshName()
    const hold = await holder.locks.mutex(name).acquire()
    const aborted = abortOf(hold)
    const own = (await connectionsAt(target)).filter((id) => !before.has(id))
    const waiting = waiter.locks.mutex(name).acquire()
    await sleep(200)
    const ended = endOf(holder, keeping)
    await endConnections(target, own)
    if (keeping === 'rows') {
      // No connection keeps it, and another one renews it.
      await until('the hold is renewed', async () =>
        hold.extend().then(
          () => true,
          () => false,
        ),
      )
      hold.assertHeld()
      expect(await hold.release()).toBe('released')
    } else {
      const prompt = ended.then(() => turns(PROMPT_TURNS)).then(() => 'too late')
      const first = Promise.race([aborted.then(() => 'aborted'), prompt])
      expect(await within('the signal aborts', first)).toBe('aborted')
      expect(reasonOf(hold)).toBe('connection-closed')
      expect(hold.isHeld).toBe(false)
    }
    const next = await within('the waiter goes on', waiting)
    expect(next.fence).toBeGreaterThan(hold.fence)
    // And so does the client that has lost everything.
    await next.release()
    const again = await within('its client goes on', holder.locks.mutex(name).acquire())
    expect(again.fence).toBeGreaterThan(next.fence)
  })
})

async function expectSilenceIsSurvived(target: SqlTarget): Promise<void> {
  const ttlMs = 4_000
  const proxy = await startProxy(target.server.port)
  afterwards(() => proxy.dispose())
  const holder = await partyAt(target, { ttlMs, requestMs: 1_000 }, { port: proxy.port })
  const waiter = await partyAt(target, LONG)
  const name = freshName()
  const sentAt = performance.now()
  const hold = await holder.locks.mutex(name).acquire()
  proxy.hold(true)
  const silentAt = performance.now()
  const abortedAt = await within('the signal aborts', abortOf(hold))
  expect(abortedAt - silentAt).toBeLessThan(ttlMs)
  expect(abortedAt - sentAt).toBeGreaterThan(ttlMs / 2)
  expect(reasonOf(hold)).toBe('expired')
  await within('the release settles', hold.release())
  const trying = await within('others hear', rejection(holder.locks.mutex(name).tryAcquire()))
  expect(trying).toMatchObject({ code: expect.stringMatching(/OUTCOME_UNKNOWN|BACKEND_UNAVAILABLE/) })
  const waiting = waiter.locks.mutex(name).acquire()
  if (target.keeping !== 'rows') {
    await sleep(500)
    // Its connection is what the server goes by, and the server has not heard of its end.
    expect((await waiter.locks.inspect(name)).holders).toHaveLength(1)
    proxy.cut()
  }
  const next = await within('the waiter goes on', waiting)
  expect(next.fence).toBeGreaterThan(hold.fence)
  // The server still says nothing, and that must not matter.
  await within('the client closes', holder.locks.close())
  proxy.hold(false)
  proxy.cut()
}

async function expectIdlenessIsNoticed(target: SqlTarget): Promise<void> {
  const [holder, waiter] = await Promise.all([partyAt(target, LONG), partyAt(target, LONG)])
  const name = freshName()
  const hold = await holder.locks.mutex(name).acquire()
  const aborted = abortOf(hold)
  const waiting = waiter.locks.mutex(name).acquire()
  if (target.keeping === 'transaction') {
    await within('the signal aborts', aborted)
    expect(reasonOf(hold)).toBe('connection-closed')
  } else {
    // The connection that has a session lock asks for more patience, and rows need none.
    await sleep(2_500)
    hold.assertHeld()
    await within('it is asked after', hold.extend())
    expect(await hold.release()).toBe('released')
  }
  expect((await within('the waiter goes on', waiting)).fence).toBeGreaterThan(hold.fence)
}

async function expectShortageIsTold(target: SqlTarget): Promise<void> {
  const party = await partyAt(target, { ...LONG, outageMs: 6_000 }, { max: 2 })
  const [first, second, third] = [freshName(), freshName(), freshName()]
  const hold = await party.locks.mutex(first).acquire()
  const more = [second, third].map((name) => party.locks.mutex(name).acquire({ waitMs: 60_000 }))
  if (target.keeping === 'transaction') {
    const errors = await within('they are told', Promise.all(more.map(rejection)))
    for (const error of errors) {
      expect(error).toBeInstanceOf(BackendUnavailableError)
      expect(error).toMatchObject({ message: expect.stringMatching(/pool/) })
    }
  } else {
    for (const other of await Promise.all(more)) expect(await other.release()).toBe('released')
  }
  await hold.extend()
  hold.assertHeld()
  expect(await hold.release()).toBe('released')
  await until('there is room again', async () => (await party.locks.mutex(second).tryAcquire()) !== null)
}

describe('connections', () => {
  test('that say nothing more end a hold in time, and hold up nobody', async () => {
    await onEach(targets, expectSilenceIsSurvived)
  })

  test('that were idle for longer than the server bears end a hold at once, unless they asked for more', async () => {
    for (const target of targets) if (target.keeping === 'rows') await endIdleConnections(target)
    await onEach(targets, expectIdlenessIsNoticed)
  })

  test('that are too few are told of, and nobody waits for somebody who waits for them', async () => {
    await onEach(targets, expectShortageIsTold)
  })
})
