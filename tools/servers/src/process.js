// @ts-check
// One server as a process of its own: a free port of the loopback address, a temporary folder with its data and its
// log, and the ways to end, stop and start it that fault tests need.
import { spawn, spawnSync } from 'node:child_process'
import { appendFileSync, closeSync, existsSync, openSync, readFileSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeClock } from './clock.js'
import { aliveOf, continueFamily, killFamily, signalPid, stopFamily } from './family.js'
import { startGuard } from './guard.js'
import { returnPort, takePort } from './ports.js'
import { GivenUpError, until } from './wait.js'

/** Where a server lives. @typedef {{ readonly port: number, readonly folder: string }} Place */

/**
 * How to start a server.
 * @typedef {object} ServerPlan
 * @property {string} name For messages and the name of the folder.
 * @property {string} program
 * @property {(place: Place) => readonly string[]} args
 * @property {(place: Place) => Promise<void>} [prepare] Writes what the server needs. It is not run again by `restart`.
 * @property {(place: Place, pid: number) => Promise<boolean>} ready Asks the server for something only a working one
 *   can do. It may reject while the server is not there.
 * @property {NodeJS.Signals} [stopSignal] What asks it to end; SIGTERM unless given.
 * @property {string} [cleanup] A shell script that puts away what the server left outside its folder, which is `$1`.
 * @property {boolean | undefined} [clock] Whether it gets a wall clock of its own, which `stepClock` sets.
 * @property {number} [companion] The port this much above the main one must be free too.
 */

const startMs = 30_000
const portsMax = 10
const logTailLength = 2_000

/** A server that was started, and that can be started again on the same port with the same data. */
export class ServerProcess {
  #plan
  #folder
  #port
  #guard
  /** @type {{ readonly pid: number, readonly ended: Promise<void> } | undefined} */
  #current
  #paused = false
  #logStart = 0
  /** @type {import('./clock.js').WallClock | undefined} */
  #clock
  /** @type {Promise<void> | undefined} */
  #disposed

  /**
   * Use `startServer`.
   * @param {ServerPlan} plan
   * @param {Place} place
   */
  constructor(plan, { folder, port }) {
    this.#plan = plan
    this.#folder = folder
    this.#port = port
    this.#guard = startGuard(folder, plan.cleanup ?? '')
  }

  get port() {
    return this.#port
  }

  get folder() {
    return this.#folder
  }

  /** The number of the process, or undefined while none runs. It is another one after `restart`. */
  get pid() {
    return this.#current?.pid
  }

  get running() {
    return this.#current !== undefined
  }

  /** Whether it runs and has not been paused. */
  get answering() {
    return this.#current !== undefined && !this.#paused
  }

  get #logFile() {
    return join(this.#folder, 'server.log')
  }

  /** The last lines that the server wrote since it was started last. */
  logTail() {
    if (!existsSync(this.#logFile)) return ''
    return readFileSync(this.#logFile).subarray(this.#logStart).toString('utf8').slice(-logTailLength).trim()
  }

  /** Starts the process and waits until it works. */
  async launch() {
    if (this.#disposed !== undefined) throw new Error(`The server ${this.#plan.name} has been disposed of.`)
    if (this.#current !== undefined) throw new Error(`The server ${this.#plan.name} runs already.`)
    this.#logStart = existsSync(this.#logFile) ? statSync(this.#logFile).size : 0
    if (this.#plan.clock === true) this.#clock ??= await makeClock(this.#folder)
    const log = openSync(this.#logFile, 'a')
    // In a session of its own it does not get the Ctrl-C of a terminal: whoever started it decides when it ends.
    const child = spawn(this.#plan.program, [...this.#plan.args(this)], {
      cwd: this.#folder,
      stdio: ['ignore', log, log],
      detached: true,
      env: { ...process.env, ...this.#clock?.env },
    })
    closeSync(log)
    const pid = await new Promise((/** @type {(pid: number) => void} */ resolve, reject) => {
      child.once('error', reject)
      if (child.pid !== undefined) resolve(child.pid)
    })
    // A forgotten server must not keep the process alive; the exit handler ends it.
    child.unref()
    this.#guard.watch(pid)
    const current = {
      pid,
      ended: new Promise((/** @type {(value: void) => void} */ resolve) => {
        child.once('exit', () => {
          this.#guard.forget(pid)
          this.#paused = false
          this.#current = undefined
          resolve()
        })
      }),
    }
    this.#current = current
    await until(
      `${this.#plan.name} on port ${this.#port} works`,
      async () => {
        if (this.#current !== current) throw new GivenUpError(`${this.#plan.name} ended.\n${this.logTail()}`)
        return this.#plan.ready(this, pid)
      },
      { timeoutMs: startMs },
    ).catch(async (error) => {
      await this.kill()
      if (error instanceof GivenUpError) throw error
      throw new Error(`${error.message}\n${this.logTail()}`, { cause: error })
    })
  }

  /** Ends the server as an operator would: it may put its data away. After the grace period it is killed. */
  async stop({ graceMs = 5_000 } = {}) {
    const current = this.#current
    if (current === undefined) return
    signalPid(current.pid, this.#plan.stopSignal ?? 'SIGTERM')
    // A process that is paused takes the signal only when it goes on.
    if (this.#paused) continueFamily(current.pid)
    this.#paused = false
    const grace = new AbortController()
    const late = sleep(graceMs, true, { signal: grace.signal }).catch(() => false)
    if (await Promise.race([current.ended.then(() => false), late])) return this.kill()
    grace.abort()
    await this.#end(current, [])
  }

  /** Ends the server at once, as a crash would. */
  async kill() {
    const current = this.#current
    if (current === undefined) return
    await this.#end(current, killFamily(current.pid))
  }

  /** Stops the server from running without ending it: connections stay open and nothing is answered. */
  async pause() {
    const pid = this.#runningPid()
    this.#paused = true
    // The signal does not take hold at once: a request that is sent right away may still be answered.
    await until(`${this.#plan.name} has stopped`, async () => stopFamily(pid), { pauseMs: 2 })
  }

  async resume() {
    continueFamily(this.#runningPid())
    this.#paused = false
  }

  /**
   * Sets the wall clock of the server forward, or back. Only one that was started with a clock of its own has this.
   * @param {number} ms
   */
  stepClock(ms) {
    if (this.#clock === undefined) {
      throw new Error(
        `The server ${this.#plan.name} was started without \`clock\`: it has the one of the machine.`,
      )
    }
    this.#clock.step(ms)
  }

  /** By how much its wall clock is ahead of that of the machine. */
  get clockOffsetMs() {
    return this.#clock?.offsetMs ?? 0
  }

  /** Starts the server again on the same port with the same data; ends it first if it runs. */
  async restart() {
    await this.stop()
    const end = performance.now() + startMs
    for (;;) {
      try {
        return await this.launch()
      } catch (error) {
        // A connection of somebody else can hold the port for a moment.
        if (!this.portWasTaken() || performance.now() > end) throw error
        await sleep(100)
      }
    }
  }

  /** Whether the last start failed because somebody else has the port. */
  portWasTaken() {
    return /address already in use|EADDRINUSE/i.test(this.logTail())
  }

  /** Ends the server and removes its folder. It may be called twice. */
  dispose() {
    this.#disposed ??= (async () => {
      await this.kill()
      const { cleanup } = this.#plan
      // What was not there needs no putting away, so it does not matter what comes of it.
      if (cleanup !== undefined) spawnSync('/bin/sh', ['-c', cleanup, 'holdfast-cleanup', this.#folder])
      await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 })
      this.#guard.end()
      returnPort(this.#port, this.#plan)
    })()
    return this.#disposed
  }

  #runningPid() {
    if (this.#current === undefined) throw new Error(`The server ${this.#plan.name} does not run.`)
    return this.#current.pid
  }

  /**
   * @param {{ readonly ended: Promise<void> }} current
   * @param {readonly number[]} pids Processes of the server that have to end too.
   */
  async #end(current, pids) {
    // The process does not keep the event loop alive, so something else has to while its end is awaited.
    const awake = setInterval(() => undefined, 1_000)
    await current.ended
    clearInterval(awake)
    if (pids.length <= 1) return
    await until(`${this.#plan.name} has ended`, async () => aliveOf(pids).length === 0, { pauseMs: 2 })
  }
}

/**
 * Starts a server on a free port and waits until it works.
 * @template {ServerProcess} [Server=ServerProcess]
 * @param {ServerPlan} plan
 * @param {(plan: ServerPlan, place: Place) => Server} [make]
 * @returns {Promise<Server>}
 */
export async function startServer(plan, make) {
  for (let tries = 1; ; tries += 1) {
    const port = await takePort(plan)
    const folder = await mkdtemp(join(tmpdir(), `holdfast-${plan.name}-`))
    const server =
      make?.(plan, { port, folder }) ?? /** @type {Server} */ (new ServerProcess(plan, { port, folder }))
    const since = performance.now()
    try {
      await plan.prepare?.(server)
      await server.launch()
      noteStart(plan.name, performance.now() - since)
      return server
    } catch (error) {
      const again = server.portWasTaken() && tries < portsMax
      await server.dispose()
      if (!again) throw error
    }
  }
}

/**
 * Adds a line to the file that HOLDFAST_SERVERS_LOG names, so that a run can tell how many servers it started.
 * @param {string} name
 * @param {number} ms
 */
function noteStart(name, ms) {
  const file = process.env['HOLDFAST_SERVERS_LOG']
  if (file !== undefined && file !== '')
    appendFileSync(file, `${JSON.stringify({ name, ms: Math.round(ms) })}\n`)
}

/**
 * Starts several things at once. If one fails, the others are disposed of: nothing is left running.
 * @template {{ dispose(): Promise<void> }} Started
 * @param {ReadonlyArray<Promise<Started>>} starts
 * @returns {Promise<Started[]>}
 */
export async function startTogether(starts) {
  const results = await Promise.allSettled(starts)
  const started = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed === undefined) return started
  await disposeAll(started)
  throw failed.reason
}

/** @param {ReadonlyArray<{ dispose(): Promise<void> }>} things */
export async function disposeAll(things) {
  await Promise.all(things.map((thing) => thing.dispose()))
}
