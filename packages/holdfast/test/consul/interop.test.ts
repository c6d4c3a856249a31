// @module-tag exclusion
import { type ChildProcess, spawn } from 'node:child_process'
import { appendFile, mkdtemp, readFile, rm, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ConsulServer } from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { atDepth } from '../../../../test/support/depth.js'
import { titled } from '../../../../test/support/titled.js'
import { until, within } from '../../../../test/support/wait.js'
import type { Locks } from '../../src/client/client.js'
import { connectTo, isMissing, keysOf, QUICK, serverOfFile, sessionsOf, whyMissing } from './support.js'

const server = serverOfFile()

/** How many times each side is to have had the lock. */
const ROUNDS = atDepth(30, 200)
/** How many processes of `consul lock` are there at a time: each is one round, and takes a moment to start. */
const LANES = 6

function consulLock(consul: ConsulServer, args: readonly string[]): ChildProcess {
  const [program = '', ...before] = consul.command
  const all = [...before, 'lock', '-http-addr', `127.0.0.1:${consul.port}`, '-monitor-retry=3', ...args]
  const child = spawn(program, all, { stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

function ended(child: ChildProcess): Promise<string> {
  let said = ''
  child.stdout?.on('data', (chunk: Buffer) => void (said += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => void (said += chunk.toString()))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) =>
      code === 0 ? resolve(said) : reject(new Error(`consul lock: ${code}: ${said}`)),
    )
  })
}

/**
 * A file in which everybody who is inside leaves a line. Appending a line is one step for the system, so the order of the
 * lines is the order of what happened.
 */
async function journal(): Promise<{ readonly file: string; readonly most: () => Promise<Journal> }> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-consul-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'journal')
  await writeFile(file, '')
  return { file, most: async () => countIn(await readFile(file, 'utf8')) }
}

interface Journal {
  readonly most: number
  readonly ours: number
  readonly theirs: number
  /** How often one side came right after the other. */
  readonly switches: number
}

function countIn(text: string): Journal {
  const counts = { most: 0, ours: 0, theirs: 0, switches: 0 }
  let inside = 0
  let last = ''
  for (const line of text.split('\n')) {
    if (line.startsWith('enter')) {
      inside += 1
      counts.most = Math.max(counts.most, inside)
      if (line.endsWith('ours')) counts.ours += 1
      else counts.theirs += 1
      if (last !== line) counts.switches += 1
      last = line
    } else if (line.startsWith('leave')) inside -= 1
  }
  if (inside !== 0) throw new Error('Somebody did not leave.')
  return counts
}

/** By how many rounds ours may be ahead. */
const AHEAD_MAX = 20

/** How far both sides are. Ours waits for theirs, because a program takes long to start where the machine is slow. */
interface Pace {
  ours: number
  theirs: number
}

async function theirRounds(
  consul: ConsulServer,
  file: string,
  options: readonly string[],
  name: string,
  insideMs: number,
  pace: Pace,
): Promise<void> {
  const command = `echo 'enter theirs' >> '${file}'; sleep ${insideMs / 1_000}; echo 'leave theirs' >> '${file}'`
  let left = ROUNDS
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1
      await ended(consulLock(consul, [...options, name, command]))
      pace.theirs += 1
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

async function ourRounds(
  clients: readonly Locks[],
  run: (locks: Locks, work: () => Promise<void>) => Promise<void>,
  file: string,
  insideMs: number,
  pace: Pace,
): Promise<void> {
  let left = ROUNDS
  const lane = async (locks: Locks): Promise<void> => {
    while (left > 0) {
      left -= 1
      await run(locks, async () => {
        await appendFile(file, 'enter ours\n')
        await new Promise((resolve) => setTimeout(resolve, insideMs))
        await appendFile(file, 'leave ours\n')
      })
      pace.ours += 1
      // The others need a moment, too: whoever takes it again at once would have it all to himself.
      await new Promise((resolve) => setTimeout(resolve, 15))
      await until('theirs comes along', () => pace.ours <= pace.theirs + AHEAD_MAX, { limitMs: 240_000 })
    }
  }
  await Promise.all(clients.map(lane))
}

describe.skipIf(isMissing)(titled('with the program `consul lock`', whyMissing), () => {
  it('excludes each other, from either side', async () => {
    const consul = await server()
    const locks = await connectTo(`${consul.url}?${QUICK}`)
    const hold = await locks.mutex('orders').acquire()
    const late = consulLock(consul, ['-timeout=1s', 'orders', 'true'])
    await expect(ended(late)).rejects.toThrow(/Lock acquisition failed|timeout|not acquired/i)
    await hold.release()
    const holding = consulLock(consul, ['orders', 'sleep 60'])
    await until('it holds', async () => (await keysOf(consul, 'orders/')).some(({ Session }) => Session))
    expect(await locks.mutex('orders').tryAcquire()).toBe(null)
    const view = await locks.inspect('orders')
    expect(view.shape).toEqual({ kind: 'mutex', limit: 1 })
    expect(view.holders[0]?.note).toMatch(/^Consul session [0-9a-f-]{36}$/)
    const waiting = locks.mutex('orders').acquire({ waitMs: 30_000 })
    holding.kill('SIGINT')
    await (await waiting).release()
    await until('it has ended', () => holding.exitCode !== null || holding.signalCode !== null)
  })

  it('wakes a waiting `consul lock` by a release, and is woken by one', async () => {
    const consul = await server()
    const locks = await connectTo(`${consul.url}?${QUICK}`)
    const hold = await locks.mutex('wake').acquire()
    const child = consulLock(consul, ['wake', 'true'])
    const done = ended(child)
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect(child.exitCode).toBe(null)
    await hold.release()
    await within('`consul lock` gets the lock and ends', done)
  })

  it(`shares one mutex in turn, ${ROUNDS} rounds each`, async () => {
    const consul = await server()
    const clients = await Promise.all([1, 2].map(() => connectTo(`${consul.url}?${QUICK}`)))
    const { file, most } = await journal()
    const run = (locks: Locks, work: () => Promise<void>): Promise<void> =>
      locks.mutex('shared').run(work, { waitMs: 200_000 })
    const pace = { ours: 0, theirs: 0 }
    await Promise.all([
      ourRounds(clients, run, file, 0, pace),
      theirRounds(consul, file, [], 'shared', 0, pace),
    ])
    const counts = await most()
    expect(counts).toMatchObject({ most: 1, ours: ROUNDS, theirs: ROUNDS })
    // Both were there at the same time, and not one after the other.
    expect(counts.switches).toBeGreaterThan(2)
    expect(await keysOf(consul, 'shared/')).toEqual([])
  })

  it(`shares one semaphore of three in turn, ${ROUNDS} rounds each`, async () => {
    const consul = await server()
    const clients = await Promise.all([1, 2, 3, 4].map(() => connectTo(`${consul.url}?${QUICK}`)))
    const { file, most } = await journal()
    const run = (locks: Locks, work: () => Promise<void>): Promise<void> =>
      locks.semaphore('pool', 3).run(work, { waitMs: 200_000 })
    // They stay inside for a while, so that all permits are taken and others want one.
    const pace = { ours: 0, theirs: 0 }
    await Promise.all([
      ourRounds(clients, run, file, 60, pace),
      theirRounds(consul, file, ['-n', '3'], 'pool', 60, pace),
    ])
    const counts = await most()
    expect(counts).toMatchObject({ most: 3, ours: ROUNDS, theirs: ROUNDS })
    expect(counts.switches).toBeGreaterThan(2)
    expect(await keysOf(consul, 'pool/')).toEqual([])
  })

  it('is told apart by kind and by limit', async () => {
    const consul = await server()
    const locks = await connectTo(`${consul.url}?${QUICK}`)
    await using _permit = await locks.semaphore('shape', 3).acquire()
    await expect(ended(consulLock(consul, ['-n', '2', 'shape', 'true']))).rejects.toThrow(/limit/i)
    await expect(ended(consulLock(consul, ['shape', 'true']))).rejects.toThrow(/existing key/i)
    await expect(locks.mutex('shape').acquire({ waitMs: 0 })).rejects.toMatchObject({
      code: 'SHAPE_CONFLICT',
    })
  })

  it('sees an overlap where there is one', async () => {
    // The check itself: without a lock, two that are inside together are found.
    const { file, most } = await journal()
    await appendFile(file, 'enter ours\nenter theirs\nleave ours\nleave theirs\n')
    expect((await most()).most).toBe(2)
    await unlink(file)
  })

  it('leaves no session of ours behind', async () => {
    const consul = await server()
    const ours = async (): Promise<number> =>
      (await sessionsOf(consul)).filter(({ Name }) => Name === 'holdfast').length
    await until('every session has ended', async () => (await ours()) === 0)
  })
})
