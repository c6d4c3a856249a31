/** The watcher by itself, over real locks, with a clock that the test owns. */

import { connect, type Locks } from 'holdfast'
import { storeFor } from 'holdfast-servers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import type { Activity, Change, Statistics, WatchListener } from '../../src/watch/activity.js'
import { EventStream } from '../../src/watch/event-stream.js'
import { Watcher } from '../../src/watch/watcher.js'
import { pathOf, startService } from '../security/running-service.js'
import { listenTo } from './event-reader.js'
import { ManualClock, settled } from './manual-clock.js'

class Recorder implements WatchListener {
  readonly changes: Change[] = []
  readonly activities: Activity[] = []
  readonly statistics: Statistics[] = []

  onChange(change: Change): void {
    this.changes.push(change)
  }

  onActivity(activities: readonly Activity[]): void {
    this.activities.push(...activities)
  }

  onDeadlocks(): void {}

  onStatistics(statistics: Statistics): void {
    this.statistics.push(statistics)
  }
}

let locks: Locks
let clock: ManualClock
let looks = 0
let lookTakesMs = 0
let isDown = false

beforeEach(async () => {
  locks = await connect('memory:')
  clock = new ManualClock()
  looks = 0
  lookTakesMs = 0
  isDown = false
})

afterEach(() => locks.close())

function watcher(canList = true): Watcher {
  return new Watcher({
    list: async function* (prefix) {
      looks += 1
      if (isDown) throw new Error('the store is silent')
      clock.now += lookTakesMs
      yield* locks.list(prefix)
    },
    inspect: (name) => locks.inspect(name),
    canList,
    clock,
  })
}

async function looksWithin(ms: number): Promise<number> {
  const before = looks
  await clock.advance(ms)
  return looks - before
}

describe('the watcher', () => {
  it('looks twice a second while somebody listens, and rarely otherwise', async () => {
    const watching = watcher()
    expect(await looksWithin(60_000)).toBeLessThanOrEqual(13)
    const stop = watching.subscribe(new Recorder())
    expect(await looksWithin(10_000)).toBeGreaterThanOrEqual(19)
    stop()
    await clock.advance(1_000)
    expect(await looksWithin(60_000)).toBeLessThanOrEqual(13)
    watching.close()
    expect(await looksWithin(60_000)).toBe(0)
  })

  it('looks for a fifth of the time at most', async () => {
    const watching = watcher()
    watching.subscribe(new Recorder())
    lookTakesMs = 400
    await clock.advance(2_000)
    expect(await looksWithin(20_000)).toBeLessThanOrEqual(11)
    watching.close()
  })

  it('looks at what is done here at once, and says so when the store is silent', async () => {
    const watching = watcher()
    const seen = new Recorder()
    watching.subscribe(seen)
    await clock.advance(600)
    const before = looks
    const hold = await locks.mutex('a').acquire()
    watching.touch('a')
    await clock.advance(100)
    expect(looks).toBe(before)
    expect(seen.changes.at(-1)?.changed.map(({ resource }) => resource)).toEqual(['a'])
    expect(seen.activities.map(({ kind, name }) => [kind, name])).toEqual([['acquired', 'a']])
    isDown = true
    await clock.advance(2_000)
    expect(seen.statistics.at(-1)).toMatchObject({ stale: true, locks: 1 })
    expect(watching.view('a')?.holders).toHaveLength(1)
    isDown = false
    await hold.release()
    await clock.advance(2_000)
    expect(seen.statistics.at(-1)).toMatchObject({ stale: false, locks: 0 })
    watching.close()
  })

  it('tells only what is done here where names cannot be listed', async () => {
    const watching = watcher(false)
    const seen = new Recorder()
    watching.subscribe(seen)
    const owner = { host: 'h', pid: 1, client: 'c' }
    const claim = { ref: 'r', owner, note: null, weight: 1, fence: 1n, remainingMs: null }
    watching.acquired('a', { ...claim, waitedMs: 5 })
    await clock.advance(3_000)
    watching.released('a', 'r')
    await clock.advance(3_000)
    expect(looks).toBe(0)
    expect(seen.activities.map(({ kind, heldMs }) => [kind, heldMs])).toEqual([
      ['acquired', null],
      ['released', 3_000],
    ])
    expect(seen.statistics.reduce((sum, { acquired }) => sum + acquired, 0)).toBe(1)
    expect(watching.history('a')).toHaveLength(2)
    watching.close()
  })
})

describe('a listener that does not read', () => {
  it('is kept no more for than there is to see, gets the last state when it reads, and is cut off in the end', async () => {
    const watching = watcher()
    const stream = new EventStream({
      watcher: watching,
      hello: {},
      prefix: '',
      maySee: () => true,
      isWelcome: () => true,
    })
    stream.start()
    const holds = await Promise.all(
      Array.from({ length: 300 }, (_, index) =>
        locks.mutex(`name-${index}`).acquire({ note: 'n'.repeat(900) }),
      ),
    )
    await clock.advance(1_000)
    for (let round = 0; round < 20; round += 1) {
      const hold = await locks.mutex('busy').acquire({ note: `round ${round}` })
      await clock.advance(1_000)
      if (round < 19) await hold.release()
    }
    expect(stream.readableLength).toBeLessThan(1_000_000)
    let text = ''
    for (let chunk = stream.read() as Buffer | null; chunk !== null; chunk = stream.read() as Buffer | null) {
      text += chunk.toString()
      await settled()
    }
    expect(text).toContain('round 19')
    expect(text.match(/"name":"busy","shape"/g)).toHaveLength(1)
    expect(stream.destroyed).toBe(false)
    await Promise.all(holds.map((hold) => hold.release()))
    const more = await Promise.all(
      Array.from({ length: 600 }, (_, index) =>
        locks.mutex(`more-${index}`).acquire({ note: 'n'.repeat(900) }),
      ),
    )
    await clock.advance(60_000)
    expect(stream.destroyed).toBe(true)
    expect(watching.listeners).toBe(0)
    await Promise.all(more.map((hold) => hold.release()))
    watching.close()
  })
})

describe('a stream that is finished', () => {
  it('gives its place back although its listener reads nothing', async () => {
    const watching = watcher()
    let isWelcome = true
    const options = { watcher: watching, hello: {}, prefix: '', maySee: () => true }
    const [ended, revoked] = [true, false].map(
      (always) => new EventStream({ ...options, isWelcome: () => always || isWelcome }),
    )
    let closed = 0
    for (const stream of [ended, revoked]) stream?.once('close', () => (closed += 1))
    for (const stream of [ended, revoked]) stream?.start()
    ended?.finish()
    isWelcome = false
    // The next statistics find that the token is not valid any more.
    await clock.advance(1_000)
    expect([watching.listeners, closed]).toEqual([0, 0])
    await clock.advance(60_000)
    expect([ended?.destroyed, revoked?.destroyed, closed]).toEqual([true, true, 2])
    watching.close()
  })
})

const postgres = await storeFor('postgres')

describe.skipIf(postgres.kind !== 'ready')(
  titled('a service over a store that cannot list', postgres.kind === 'ready' ? null : postgres.reason),
  () => {
    it('says so, and tells its listeners what it does itself', async () => {
      if (postgres.kind !== 'ready') return
      const url = new URL(postgres.store.url)
      url.searchParams.set('recipe', 'advisory')
      const service = await startService({ url: url.href })
      try {
        const events = await listenTo(service.url)
        expect(await events.until('hello', () => events.of('hello')[0])).toMatchObject({
          guarantees: { shows: 'connections' },
        })
        const deadlocks = await service.get('/v1/deadlocks')
        expect(deadlocks.status).toBe(501)
        expect(deadlocks.json).toMatchObject({ code: 'UNSUPPORTED' })
        expect((await service.post(pathOf('a', 'acquire'))).status).toBe(200)
        await events.activity('a', 'acquired')
        await events.until('statistics', () => events.of('stats')[0])
        expect(events.of('snapshot')).toEqual([])
        events.close()
      } finally {
        await service.close()
        await postgres.store.dispose()
      }
    })
  },
)
