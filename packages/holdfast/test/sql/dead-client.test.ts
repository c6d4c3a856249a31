import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { performance } from 'node:perf_hooks'
import { execPath } from 'node:process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { afterwards, freshName, onEach, partyAt, type SqlTarget, sqlTargets, TIMEOUT_MS } from './recipes.js'

type Doing = 'beside' | 'inside' | 'waiting'

/** What the server needs to notice, at most. It is asserted with room for a busy machine, because nothing goes wrong later. */
const BAR_MS = 5_000
const ROOM_MS = 5_000

/** Starts a client, waits until it does what it shall be killed in, and gives the way to kill it. */
async function startClient(
  { store, recipe, server }: SqlTarget,
  name: string,
  doing: Doing,
): Promise<() => Promise<void>> {
  const path = fileURLToPath(new URL('./dead-client.mjs', import.meta.url))
  const args = [path, store, recipe, String(server.port), name, doing]
  const client = spawn(execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(client, 'exit')
  const kill = async (): Promise<void> => {
    client.kill('SIGKILL')
    await exited
  }
  afterwards(kill)
  const printed = await Promise.race([once(client.stdout, 'data'), exited.then(() => null)])
  if (printed === null) throw new Error('The client ended before it held the lock; is the library built?')
  return kill
}

async function expectFreed(target: SqlTarget, doing: Doing): Promise<void> {
  const { locks } = await partyAt(target)
  const name = freshName()
  const kill = await startClient(target, name, doing)
  expect(await locks.mutex(name).tryAcquire()).toBeNull()
  await kill()
  const since = performance.now()
  await (await locks.mutex(name).acquire()).release()
  const tookMs = performance.now() - since
  expect(tookMs).toBeLessThan(BAR_MS + ROOM_MS)
  console.log(`dead client: ${target.title}, statement ${doing}: freed after ${Math.round(tookMs)} ms`)
}

/** Whoever comes next must get past a waiter that is dead. */
async function expectPassedOver(target: SqlTarget): Promise<void> {
  const { locks } = await partyAt(target)
  const name = freshName()
  const hold = await locks.mutex(name).acquire()
  const kill = await startClient(target, name, 'waiting')
  const { locks: others } = await partyAt(target)
  const next = others.mutex(name).acquire()
  await kill()
  const since = performance.now()
  await hold.release()
  await (await next).release()
  const tookMs = performance.now() - since
  expect(tookMs).toBeLessThan(BAR_MS + ROOM_MS)
  console.log(`dead client: ${target.title}, waiting: passed over after ${Math.round(tookMs)} ms`)
}

const targets = await sqlTargets()

describe('a client that is killed', { timeout: TIMEOUT_MS }, () => {
  test('while a statement runs over the same pool frees its lock soon', async () => {
    await onEach(
      targets.filter(({ keeping }) => keeping !== 'rows'),
      (target) => expectFreed(target, 'beside'),
    )
  })

  test('while a statement runs in the transaction that has the lock frees it soon', async () => {
    await onEach(
      targets.filter(({ keeping }) => keeping === 'transaction'),
      (target) => expectFreed(target, 'inside'),
    )
  })

  test('while it waits for the lock is soon passed over', async () => {
    await onEach(targets, expectPassedOver)
  })
})
