// @module-tag exclusion
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Looked, Wrote } from '../src/workers/next-holder.js'
import type { Awoken, Held } from '../src/workers/stopped-holder.js'
import { Children } from './children.js'
import { type SqlTarget, sqlTargets } from './sql-recipes.js'

const TTL_MS = 3_000
const STOPPED_MS = 3 * TTL_MS

let folder: string
let children: Children

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-sql-stop-'))
  children = new Children()
})

afterEach(async () => {
  await children.stopAll()
  await rm(folder, { recursive: true, force: true })
})

/** Stops a holder for longer than its lease while another one waits, and lets it go on. */
async function stopHolder({ url, recipe, title }: SqlTarget): Promise<void> {
  const isLease = recipe === 'rows'
  const socket = join(folder, `${recipe}.sock`)
  await children.start('resource', [socket]).hear('ready')
  const stopped = children.start('stopped-holder', [url, socket, TTL_MS])
  const held = await stopped.hear<Held>('held')
  stopped.signal('SIGSTOP')
  const stoppedAt = performance.now()

  let wroteAt = Number.POSITIVE_INFINITY
  const next = children.start('next-holder', [url, socket, TTL_MS], () => {
    wroteAt = Math.min(wroteAt, performance.now())
  })
  if (isLease) await next.hear<Wrote>('wrote').then((wrote) => expect(wrote.write, title).toBe('accepted'))
  await sleep(Math.max(0, STOPPED_MS - (performance.now() - stoppedAt)))
  const awokenAt = performance.now()
  // A server that goes by the connection keeps the lock for as long as that is there.
  expect(wroteAt < awokenAt, title).toBe(isLease)
  stopped.signal('SIGCONT')
  const awoken = await stopped.hear<Awoken>('awoken')
  expect(awoken, title).toMatchObject({
    heldBefore: true,
    assertHeld: 'LOCK_LOST',
    aborted: true,
    abortReason: 'LOCK_LOST',
    isHeld: false,
  })
  if (isLease) {
    expect(awoken, title).toMatchObject({ released: 'gone', write: 'STALE_FENCE' })
  } else {
    const wrote = await next.hear<Wrote>('wrote')
    expect(wrote.write, title).toBe('accepted')
    expect(BigInt(wrote.fence) > BigInt(held.fence), title).toBe(true)
  }
  next.say('look')
  expect(await next.hear<Looked>('looked'), title).toMatchObject({
    assertHeld: null,
    aborted: false,
    write: 'accepted',
  })
}

const targets = await sqlTargets()
const stores = [...new Set(targets.map(({ store }) => store))]

describe.each(stores)('a holder on %s that stands still', (store) => {
  it('knows when it is let go on that its lock is lost, and does the next holder no harm', async () => {
    await Promise.all(targets.filter((target) => target.store === store).map(stopHolder))
    expect(children.errors).toBe('')
  })
})
