// @module-tag exclusion
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type Locks } from 'holdfast'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Blocked } from '../src/workers/blocked-loop.js'
import type { Looked, Wrote } from '../src/workers/next-holder.js'
import type { Awoken, Held } from '../src/workers/stopped-holder.js'
import { Children } from './children.js'

const TTL_MS = 3_000

let folder: string
let url: string
let children: Children
let locks: Locks

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-stall-'))
  url = `sqlite:${join(folder, 'locks.db')}`
  children = new Children()
  locks = await connect(url)
})

afterEach(async () => {
  await children.stopAll()
  await locks.close()
  await rm(folder, { recursive: true, force: true })
})

describe('a holder that stands still', () => {
  it('knows at once, when it is let go on, that its lock is lost, and does the next holder no harm', async () => {
    const socket = join(folder, 'resource.sock')
    await children.start('resource', [socket]).hear('ready')
    const stopped = children.start('stopped-holder', [url, socket, TTL_MS])
    const held = await stopped.hear<Held>('held')
    stopped.signal('SIGSTOP')
    const sinceStop = performance.now()

    const next = children.start('next-holder', [url, socket, TTL_MS])
    const wrote = await next.hear<Wrote>('wrote')
    expect(wrote.write).toBe('accepted')
    expect(BigInt(wrote.fence) > BigInt(held.fence)).toBe(true)

    await sleep(Math.max(0, 3 * TTL_MS - (performance.now() - sinceStop)))
    stopped.signal('SIGCONT')
    const awoken = await stopped.hear<Awoken>('awoken')
    expect(awoken).toMatchObject({
      heldBefore: true,
      assertHeld: 'LOCK_LOST',
      aborted: true,
      abortReason: 'LOCK_LOST',
      isHeld: false,
      released: 'gone',
      write: 'STALE_FENCE',
    })

    const { holders } = await locks.inspect('stopped')
    expect(holders.map(({ owner, fence }) => [owner.pid, fence])).toEqual([[next.pid, BigInt(wrote.fence)]])
    next.say('look')
    expect(await next.hear<Looked>('looked')).toMatchObject({
      assertHeld: null,
      aborted: false,
      write: 'accepted',
    })
    expect(children.errors).toBe('')
  })

  it.each(['sqlite', 'memory'])(
    'knows after a blocked event loop that its lock on %s is lost',
    async (store) => {
      const child = children.start('blocked-loop', [store === 'memory' ? 'memory:' : url, 1_500])
      expect(await child.hear<Blocked>('blocked')).toMatchObject({
        before: null,
        assertHeld: 'LOCK_LOST',
        aborted: true,
        abortReason: 'LOCK_LOST',
        isHeld: false,
        remainingMs: 0,
        extend: 'LOCK_LOST',
      })
      expect(child.errors).toBe('')
    },
  )
})
