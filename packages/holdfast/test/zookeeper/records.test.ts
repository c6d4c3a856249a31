/** Records whose owners are nodes of sessions: sessions that end, and requests of which nobody knows what became. */

import { randomBytes } from 'node:crypto'
import { startProxy, startZookeeper, type ZookeeperServer } from 'holdfast-servers'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { CellRecords } from '../../src/backends/shared/cell-records.js'
import { openZookeeperRecords } from '../../src/backends/zookeeper/open-records.js'
import { RecordPaths } from '../../src/backends/zookeeper/record-node.js'
import { RecordSessions } from '../../src/backends/zookeeper/record-sessions.js'
import { ZookeeperRecords } from '../../src/backends/zookeeper/records.js'
import { ZookeeperSession } from '../../src/backends/zookeeper/session.js'
import { OPEN_ACL, ZooKeeper, ZooKeeperError } from '../../src/backends/zookeeper/wire/zookeeper.js'
import { OutcomeUnknownError } from '../../src/core/errors.js'
import type { ClaimAnswer, ClaimAsk, RecordStore } from '../../src/core/records.js'
import { clientOf, endAtServers, freshBase, isMissing, whyMissing } from './support.js'

/** So long that nothing ends by itself while a test looks. */
const LONG_MS = 25_000
/** Long enough for a claim to be asked for again on a slow machine, and short enough to be waited for. */
const LOST_MS = 8_000

let server: ZookeeperServer
let direct: ZooKeeper
let base: string
const opened: { close(): Promise<void> }[] = []
beforeAll(async () => {
  if (isMissing) return
  server = await startZookeeper()
  direct = await clientOf(server.port)
})
afterAll(async () => {
  await direct?.close()
  await server?.dispose()
})
beforeEach(() => {
  base = freshBase()
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()))
})

async function connected(url = `${server.url}${base}`): Promise<RecordStore> {
  const store = await openZookeeperRecords(url)
  await store.open()
  opened.push(store)
  return store
}

/** A store whose sessions a test can get at. */
async function mortal(): Promise<{ readonly store: RecordStore; readonly sessions: ZookeeperSession[] }> {
  const sessions: ZookeeperSession[] = []
  const connection = { hosts: [{ host: '127.0.0.1', port: server.port }], sessionMs: 45_000 }
  const start: typeof ZookeeperSession.start = async (options, ended) => {
    const session = await ZookeeperSession.start(options, ended)
    sessions.push(session)
    return session
  }
  const paths = new RecordPaths(base.slice(1).split('/'))
  const store = new CellRecords(new ZookeeperRecords(new RecordSessions(connection, start), OPEN_ACL, paths))
  await store.open()
  opened.push(store)
  return { store, sessions }
}

function askFor(changes: Partial<ClaimAsk> = {}): ClaimAsk {
  return {
    key: randomBytes(32).toString('hex'),
    owner: randomBytes(16).toString('hex'),
    fingerprint: null,
    leaseMs: LONG_MS,
    retentionMs: 3_600_000,
    takeOver: true,
    onlyIssued: false,
    ...changes,
  }
}

function claimedOf(answer: ClaimAnswer): Extract<ClaimAnswer, { kind: 'claimed' }> {
  if (answer.kind === 'claimed') return answer
  throw new Error(`Expected a claim, got ${answer.kind}.`)
}

function ownerNode(key: string): string {
  return new RecordPaths(base.slice(1).split('/')).ownerOf(key)
}

const refOf = (ask: ClaimAsk, { fence }: { readonly fence: bigint }) => ({
  key: ask.key,
  owner: ask.owner,
  fence,
})

describe.skipIf(isMissing)(titled('a record whose session ends', whyMissing), () => {
  it('is abandoned at once, and its owner may still finish it until somebody takes over', async () => {
    const { store, sessions } = await mortal()
    const rival = await connected()
    const [late, taken] = [askFor(), askFor()]
    const [first, second] = [claimedOf(await store.claim(late)), claimedOf(await store.claim(taken))]
    expect((await rival.claim(askFor({ key: late.key }))).kind).toBe('in-progress')
    for (const session of sessions.slice()) await endAtServers(server.port, session.client)
    const abandoned = { kind: 'abandoned', fence: first.fence, attempt: 1 }
    expect(await rival.claim(askFor({ key: late.key, takeOver: false }))).toEqual(abandoned)
    const next = claimedOf(await rival.claim(askFor({ key: taken.key })))
    expect([next.attempt, next.tookOver, next.fence > second.fence]).toEqual([2, true, true])
    const asks = [late, taken].map((ask, index) => ({
      ...refOf(ask, [first, second][index] ?? first),
      leaseMs: LONG_MS,
      retentionMs: null,
    }))
    // A session that has just been taken away takes a moment to find out.
    const answers = await until('the renewals are answered', async () => {
      const given = await store.renew(asks)
      return given.includes('unknown') ? null : given
    })
    expect(answers).toEqual(['lost', 'lost'])
    const end = { state: 'completed', result: 'late', retentionMs: 3_600_000 } as const
    const finish = (ask: ClaimAsk, claim: { readonly fence: bigint }) =>
      until('the end is answered', () => store.finish({ ...refOf(ask, claim), ...end }).catch(() => null))
    expect(await finish(late, first)).toBe('done')
    expect(await finish(taken, second)).toBe('stale')
    expect((await rival.read(late.key))?.result).toBe('late')
    expect((await rival.read(taken.key))?.state).toBe('in-progress')
  })

  it('is nobody of ours any more, though its node is still there, and what takes over outlives that node', async () => {
    const { store, sessions } = await mortal()
    const rival = await connected()
    const ask = askFor()
    const before = claimedOf(await store.claim(ask))
    const old = await direct.exists(ownerNode(ask.key))
    const gone = sessions.splice(0)
    // The servers do not know yet, and will not for a long time.
    for (const { client } of gone) client.abandon()
    expect((await rival.claim(askFor({ key: ask.key }))).kind).toBe('in-progress')
    expect(await store.renew([{ ...refOf(ask, before), leaseMs: LONG_MS, retentionMs: null }])).toEqual([
      'lost',
    ])
    expect((await store.claim({ ...ask, takeOver: false })).kind).toBe('abandoned')
    const again = claimedOf(await store.claim(ask))
    expect([again.attempt, again.tookOver, again.fence > before.fence]).toEqual([2, true, true])
    const fresh = await direct.exists(ownerNode(ask.key))
    expect(fresh?.ephemeralOwner).not.toBe(old?.ephemeralOwner)
    for (const session of gone) await endAtServers(server.port, session.client)
    expect(await store.renew([{ ...refOf(ask, again), leaseMs: LONG_MS, retentionMs: null }])).toEqual([
      'held',
    ])
    expect((await rival.claim(askFor({ key: ask.key }))).kind).toBe('in-progress')
    const end = { state: 'completed', result: 'x', retentionMs: null } as const
    expect(await store.finish({ ...refOf(ask, before), ...end })).toBe('stale')
    expect(await store.finish({ ...refOf(ask, again), ...end })).toBe('done')
    expect(await direct.exists(ownerNode(ask.key))).toBe(null)
  })
})

describe.skipIf(isMissing)(titled('a claim without an answer', whyMissing), () => {
  it('is found again by its owner, and if nobody asks for it again it is abandoned', async () => {
    const proxy = await startProxy(server.port)
    opened.push({ close: () => proxy.dispose() })
    const store = await connected(`zookeeper://127.0.0.1:${proxy.port}${base}`)
    const rival = await connected()
    // All in one folder, which is there already, so that the next thing to get lost is the record.
    const keys = Array.from({ length: 3 }, () => `00${randomBytes(31).toString('hex')}`)
    const [first, asked, forgotten] = keys.map((key) => askFor({ key, leaseMs: LOST_MS })) as [
      ClaimAsk,
      ClaimAsk,
      ClaimAsk,
    ]
    await store.claim(first)
    proxy.dropReplies(true)
    const claiming = [asked, forgotten].map((ask) => store.claim(ask).catch((error: unknown) => error))
    for (const { key } of [asked, forgotten]) {
      await until('the record is there', () => rival.read(key))
    }
    proxy.cut()
    proxy.dropReplies(false)
    for (const outcome of await Promise.all(claiming)) expect(outcome).toBeInstanceOf(OutcomeUnknownError)
    const answer = await until('the connection is back', () => store.claim(asked).catch(() => null))
    const { attempt, fence } = claimedOf(answer)
    expect(attempt).toBe(1)
    expect((await rival.read(asked.key))?.fence).toBe(fence)
    const [renewal] = await store.renew([{ ...refOf(asked, { fence }), leaseMs: LONG_MS, retentionMs: null }])
    expect(renewal).not.toBe('lost')
    await until('the other is abandoned', async () =>
      (await rival.claim(askFor({ key: forgotten.key, takeOver: false }))).kind === 'abandoned' ? true : null,
    )
    const end = { state: 'completed', result: 'x', retentionMs: null } as const
    expect(await store.finish({ ...refOf(asked, { fence }), ...end })).toBe('done')
  })
})

describe.skipIf(isMissing)(
  titled('a claim that was made while the look at it was turned away', whyMissing),
  () => {
    it('is found again by its owner, and if nobody asks for it again it is abandoned', async () => {
      const { store, sessions } = await mortal()
      const rival = await connected()
      // All in one folder, which is there already, so that the first thing to be made is the record.
      const keys = Array.from({ length: 3 }, () => `00${randomBytes(31).toString('hex')}`)
      const [first, asked, forgotten] = keys.map((key) => askFor({ key, leaseMs: LOST_MS })) as [
        ClaimAsk,
        ClaimAsk,
        ClaimAsk,
      ]
      const alive = claimedOf(await store.claim(first))
      const turned = sessions.map(({ client }) =>
        vi.spyOn(client, 'getData').mockImplementation(async (path) => {
          throw new ZooKeeperError('THROTTLED', 'The server has too much to do.', { path, wasSent: true })
        }),
      )
      // At the same time, because a session that has such a claim gets no more of them.
      const claiming = [asked, forgotten].map((ask) => store.claim(ask).catch((error: unknown) => error))
      for (const outcome of await Promise.all(claiming)) expect(outcome).toBeInstanceOf(OutcomeUnknownError)
      for (const spy of turned) spy.mockRestore()
      const { attempt, fence } = claimedOf(await store.claim(asked))
      expect([attempt, fence]).toEqual([1, (await rival.read(asked.key))?.fence])
      const end = { state: 'completed', result: 'x', retentionMs: null } as const
      expect(await store.finish({ ...refOf(asked, { fence }), ...end })).toBe('done')
      const renewals: unknown[] = []
      await until('the other is abandoned', async () => {
        // Its session lives on with this one.
        renewals.push(
          ...(await store.renew([{ ...refOf(first, alive), leaseMs: LOST_MS, retentionMs: null }])),
        )
        const { kind } = await rival.claim(askFor({ key: forgotten.key, takeOver: false }))
        return kind === 'abandoned'
      })
      expect(renewals).not.toContain('lost')
    })
  },
)

describe.skipIf(isMissing)(titled('the nodes of records', whyMissing), () => {
  it('are one for what is settled, and none once it was purged', async () => {
    const store = await connected()
    const paths = new RecordPaths(base.slice(1).split('/'))
    const asks = Array.from({ length: 5 }, () => askFor())
    for (const ask of asks) {
      const { fence } = claimedOf(await store.claim(ask))
      expect((await direct.children(paths.recordOf(ask.key))).names).toHaveLength(2)
      await store.finish({ ...refOf(ask, { fence }), state: 'completed', result: 'x', retentionMs: 1 })
      expect((await direct.children(paths.recordOf(ask.key))).names).toEqual([])
    }
    let purged = 0
    await until('all are purged', async () => {
      purged += (await store.purge?.(2)) ?? 0
      return purged === asks.length ? true : null
    })
    for (const { key } of asks) expect(await direct.exists(paths.recordOf(key))).toBe(null)
  })
})
