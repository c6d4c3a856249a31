// @module-tag exclusion
/** Apache Curator on the same paths: what one side holds, the other does not get, both ways. */

import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { missingPrograms, startZookeeper, type ZookeeperServer } from 'holdfast-servers'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { atDepth } from '../../../../test/support/depth.js'
import { openZookeeper } from '../../src/backends/zookeeper/open.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Hold } from '../../src/core/hold.js'
import type { Lockable } from '../../src/primitives/lock.js'
import { LogBook } from '../support/log-book.js'
import { CuratorSide } from './curator.js'

const TIMEOUT_MS = 120_000
const ROUNDS = atDepth(30, 200)
const missing = missingPrograms(['java', 'javac', 'zookeeper.jar', 'curator'])

let server: ZookeeperServer
let locks: Locks
let base: string
let sides: CuratorSide[]

describe.skipIf(missing.length > 0)(
  `Apache Curator${missing.length > 0 ? ` (not run: no ${missing.join(', ')})` : ''}`,
  () => {
    beforeAll(async () => {
      server = await startZookeeper()
    })
    afterAll(() => server?.dispose())
    beforeEach(async () => {
      base = `/t${randomBytes(5).toString('hex')}`
      sides = []
      locks = await createLocks(await openZookeeper(`${server.url}${base}?sessionMs=15000`))
    })
    afterEach(async () => {
      await Promise.all(sides.map((side) => side.end()))
      await locks.close()
    })

    function curator(...args: string[]): CuratorSide {
      const side = new CuratorSide([`127.0.0.1:${server.port}`, ...args])
      sides.push(side)
      return side
    }

    it.each<[string, (locks: Locks) => Lockable<Hold>, string]>([
      ['a mutex', (ours) => ours.mutex('orders'), 'hold'],
      ['a write lock', (ours) => ours.readWrite('orders').write(), 'hold-write'],
      ['a read lock that a writer wants', (ours) => ours.readWrite('orders').write(), 'hold-read'],
      ['a write lock that a reader wants', (ours) => ours.readWrite('orders').read(), 'hold-write'],
    ])('does not give away %s, and neither do we', async (_what, lockOf, mode) => {
      const lock = lockOf(locks)
      const theirs = curator(mode, `${base}/orders`)
      await theirs.says('held')
      expect(await lock.tryAcquire()).toBeNull()
      expect((await locks.inspect('orders')).holders.length).toBe(1)
      const waiting = lock.acquire({ waitMs: TIMEOUT_MS })
      theirs.goOn()
      const hold = await waiting
      await theirs.says('released')
      hold.assertHeld()
      const again = curator(mode, `${base}/orders`)
      const got = again.says('held').then(() => 'held')
      expect(await Promise.race([got, sleep(3_000, 'waits')])).toBe('waits')
      await hold.release()
      expect(await got).toBe('held')
    })

    it('reads beside us', async () => {
      const theirs = curator('hold-read', `${base}/orders`)
      await theirs.says('held')
      await using hold = await locks.readWrite('orders').read().acquire({ waitMs: TIMEOUT_MS })
      hold.assertHeld()
    })

    it(`takes turns with us on a mutex, ${ROUNDS} times each, and nobody is in beside another`, async () => {
      const book = new LogBook()
      const theirs = curator('mutex', `${base}/orders`, book.file, 'curator', String(ROUNDS))
      await theirs.says('ready')
      theirs.goOn()
      for (let round = 0; round < ROUNDS; round += 1) {
        await locks.mutex('orders').run(() => visit(book, 'write'), { waitMs: TIMEOUT_MS })
      }
      await theirs.says('done')
      expectTurns(book)
    })

    it(`takes turns with us on a read-write lock, ${ROUNDS} times each, and no writer is in beside another`, async () => {
      const book = new LogBook()
      const theirs = curator('read-write', `${base}/orders`, book.file, 'curator', String(ROUNDS))
      await theirs.says('ready')
      theirs.goOn()
      const lock = locks.readWrite('orders')
      for (let round = 0; round < ROUNDS; round += 1) {
        const kind = round % 3 === 0 ? 'write' : 'read'
        await lock[kind]().run(() => visit(book, kind), { waitMs: TIMEOUT_MS })
      }
      await theirs.says('done')
      expectTurns(book)
    })

    async function visit(book: LogBook, kind: string): Promise<void> {
      book.enter('holdfast', kind)
      await sleep(1)
      book.leave('holdfast', kind)
    }

    function expectTurns(book: LogBook): void {
      const { rounds, faults } = book.read()
      expect(faults).toEqual([])
      expect(Object.fromEntries(rounds)).toEqual({ curator: ROUNDS, holdfast: ROUNDS })
      // If one had run after the other, the test would prove nothing. How often they alternate is up to the scheduler.
      expect(book.turns()).toBeGreaterThan(2)
      book.remove()
    }
  },
)

describe('the book', () => {
  it('shows who was in beside another', () => {
    const book = new LogBook()
    book.enter('a')
    book.enter('b')
    book.leave('a')
    book.leave('b')
    book.enter('a', 'read')
    book.enter('b', 'read')
    book.enter('c')
    expect(book.read().faults.length).toBe(5)
    expect(book.read(3).faults.length).toBe(3)
    book.remove()
  })
})
