import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { execPath } from 'node:process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { within } from '../../../../test/support/wait.js'
import { afterwards, freshName, onEach, partyAt, type SqlTarget, sqlTargets } from './recipes.js'

type Doing = 'beside' | 'inside' | 'waiting'

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
  // The statement of the dead client lasts ten minutes. A server that does not notice keeps the lock until its end.
  const hold = await within(
    `the lock of the dead client is free (${target.title})`,
    locks.mutex(name).acquire(),
  )
  await hold.release()
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
  await hold.release()
  await (await within(`the dead waiter is passed over (${target.title})`, next)).release()
}

const targets = await sqlTargets()

describe('a client that is killed', () => {
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
