/**
 * One process of a torture run: several callers that contend for the same few locks as the callers of the other
 * processes, and write down all they see.
 *
 *     torture-worker.js SETUP
 */

import { subscribe } from 'node:diagnostics_channel'
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks, EVENTS_CHANNEL, type HoldfastEvent, type Locks } from 'holdfast'
import { openBackend } from 'holdfast/service'
import { SeededRandom } from 'holdfast/testing'
import { PlainSet } from '../oracles/plain-set.js'
import { RegisterClient } from '../oracles/register-client.js'
import { Tripwire } from '../oracles/tripwire.js'
import { breakStore } from '../torture/broken-store.js'
import { Caller, judge, Tally } from '../torture/caller.js'
import { Diary, describeError } from '../torture/diary.js'
import { type HealthSample, takeSample, type WorkerHealth } from '../torture/health.js'
import type { FromWorker, ToWorker, WorkerCounts, WorkerSetup } from '../torture/protocol.js'
import { OpenRequests, RecordedStore } from '../torture/recorded-store.js'
import { watchForStalls } from '../torture/stall-watch.js'
import { Workload } from '../torture/workload.js'
import { blockFor } from './shared/block-for.js'
import { argument, tell as tellParent } from './shared/parent.js'

const COUNTS_MS = 250
const RECONNECT_MS = 200
/** The first look is the end of the warm-up. */
const SAMPLE_MS = 3_000
const CLOSED_MS = 5_000

const setup = JSON.parse(argument(0)) as WorkerSetup
const diary = new Diary(setup.histories, setup.process)
const tally = new Tally()
const requests = new OpenRequests((resource) => {
  // Separate flows have separate requests, and it is not known whose this one is.
  if (setup.flows) return
  const name = resource.slice(setup.prefix.length)
  const first = tally.firstInQueue(name)
  if (first !== null) diary.note(first, 'queued', 'note', name)
})
const finish = new AbortController()
/** Passed to many acquisitions, as a program does that ends all of its work with one signal. */
const lasting = new AbortController()
// Every caller rests with an ear on it.
setMaxListeners(0, finish.signal, lasting.signal)

process.on('message', (message: ToWorker) => {
  if (message.kind === 'finish') finish.abort()
  else blockFor(message.ms)
})
// Without the run there is nobody to work for, and nobody to end this process.
process.on('disconnect', () => process.exit(0))
// Ctrl-C reaches every process of a terminal; the run ends its workers itself.
process.on('SIGINT', () => undefined)
process.on('uncaughtException', (error) => {
  diary.complain('unexpected-error', setup.process, '', `uncaught: ${describeError(error)}`)
})
process.on('unhandledRejection', (error) => {
  diary.complain('unexpected-error', setup.process, '', `unhandled rejection: ${describeError(error)}`)
})

const workloads: Workload[] = []
subscribe(EVENTS_CHANNEL, (message) => {
  const event = message as HoldfastEvent
  if (event.type === 'sleep-noticed') tally.sleepNoticed()
  // Only while there is work: a call that begins during the last round would not be waited for.
  const [first] = workloads
  if ((event.type === 'released' || event.type === 'lost') && !finish.signal.aborted) first?.onEvent()
})

/** As `connect()` does it, with a record of the requests between the library and its driver of the store. */
async function connectOnce(): Promise<Locks> {
  const store = breakStore(await openBackend(setup.url), setup.broken)
  const backend = new RecordedStore(store, requests)
  try {
    const deadlocks = setup.flows ? 'show' : 'off'
    return await createLocks(backend, { ttlMs: setup.ttlMs, requestMs: 2_000, outageMs: 5_000, deadlocks })
  } catch (error) {
    await backend.close().catch(() => undefined)
    throw error
  }
}

/** A process that is started anew may find its store in trouble, and tries again like any service would. */
async function connected(): Promise<Locks | null> {
  while (!finish.signal.aborted) {
    try {
      return await connectOnce()
    } catch (error) {
      const { unexpected } = judge(error)
      if (unexpected)
        diary.complain('unexpected-error', setup.process, '', `connect: ${describeError(error)}`)
      await sleep(RECONNECT_MS)
    }
  }
  return null
}

function counts(): WorkerCounts {
  const { acquired, lost, refused, unknown, waits } = tally
  const longest = [...waits.values()].reduce<{ since: number; name: string } | null>(
    (first, wait) => (first === null || wait.since < first.since ? wait : first),
    null,
  )
  const waitingSince = longest?.since ?? null
  return {
    acquired,
    lost,
    refused,
    unknown,
    waiting: waits.size,
    waitingSince,
    waitingFor: longest?.name ?? null,
  }
}

function tell(message: FromWorker): void {
  if (process.connected) process.send?.(message)
}

function workloadsOf(locks: Locks, register: RegisterClient | null): Workload[] {
  const { scene: folder, ttlMs, startedAt, names, prefix, broken, flows } = setup
  const scene = {
    diary,
    tripwire: new Tripwire(folder),
    plainSet: new PlainSet(folder),
    register,
    ttlMs,
    startedAt,
  }
  return Array.from({ length: setup.callers }, (_, index) => {
    const caller = new Caller(diary, tally, index + 1, requests)
    const aside = new Caller(diary, tally, `${index + 1}a`, requests)
    const random = new SeededRandom(setup.seed + index * 7_919)
    const fenced = register !== null
    const { signal } = lasting
    return new Workload({
      locks,
      caller,
      aside,
      random,
      scene,
      names,
      prefix,
      fenced,
      broken,
      lasting: signal,
      flows,
    })
  })
}

const sample = (): HealthSample => takeSample([lasting.signal], tally.acquired)

/** What a closed connection leaves goes within moments. What is there after this stays. */
async function sampleWhenClosed(first: HealthSample): Promise<HealthSample> {
  for (const endsAt = performance.now() + CLOSED_MS; ; ) {
    const closed = sample()
    const gone = Object.entries(closed.resources).every(
      ([name, count]) => count <= (first.resources[name] ?? 0),
    )
    if (gone || performance.now() > endsAt) return closed
    await sleep(50)
  }
}

async function work(locks: Locks, first: HealthSample): Promise<WorkerHealth> {
  const register = setup.register === null ? null : new RegisterClient(setup.register)
  workloads.push(...workloadsOf(locks, register))
  const working: HealthSample[] = []
  const sampling = setInterval(() => working.push(sample()), SAMPLE_MS)
  await Promise.all(workloads.map((workload) => workload.run(finish.signal)))
  await Promise.all(workloads.map((workload) => workload.lastRound()))
  clearInterval(sampling)
  register?.close()
  const idle = sample()
  try {
    await locks.close()
  } catch (error) {
    diary.complain('unexpected-error', setup.process, '', `close: ${describeError(error)}`)
  }
  return { first, working, idle, closed: await sampleWhenClosed(first) }
}

const stopWatching = watchForStalls(diary)
const telling = setInterval(() => tell({ kind: 'counts', counts: counts() }), COUNTS_MS)
const first = sample()
const locks = await connected()
tell({ kind: 'ready' })
const health = locks === null ? null : await work(locks, first)
clearInterval(telling)
stopWatching()
await tellParent({ kind: 'done', counts: counts(), health } satisfies FromWorker)
process.exit(0)
