// @ts-check
// Runs the steps of a plan as child processes, and passes signals on to the one that runs.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

/** @typedef {import('./plans.mjs').Step} Step */
/** How a step ended; `detail` says why it failed. @typedef {{ readonly passed: boolean, readonly detail: string | null, readonly wallMs: number }} StepOutcome */

/** @type {readonly NodeJS.Signals[]} */
const passedOn = ['SIGINT', 'SIGTERM', 'SIGHUP']
/** How long processes that an interrupted step left behind may take to end. */
const graceMs = 3_000

export class StepRunner {
  #folder
  #env
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child
  /** @type {NodeJS.Signals | null} */
  #interruptedBy = null
  #onSignal = (/** @type {NodeJS.Signals} */ signal) => {
    this.#interruptedBy ??= signal
    this.#child?.kill(signal)
  }

  /**
   * @param {string} folder Where the steps run.
   * @param {NodeJS.ProcessEnv} env
   */
  constructor(folder, env) {
    this.#folder = folder
    this.#env = env
    for (const signal of passedOn) process.on(signal, this.#onSignal)
  }

  /** The signal that ended the run, or null. */
  get interruptedBy() {
    return this.#interruptedBy
  }

  /** The exit code of a run that a signal ended, as a shell reports it. */
  get interruptedCode() {
    return this.#interruptedBy === null ? null : 128 + constants.signals[this.#interruptedBy]
  }

  /** Stops listening to signals. */
  close() {
    for (const signal of passedOn) process.off(signal, this.#onSignal)
  }

  /**
   * @param {Step} step
   * @param {Readonly<Record<string, string>>} [env]
   * @returns {Promise<StepOutcome>}
   */
  async run({ command, args, env: stepEnv }, env = {}) {
    const startedAt = performance.now()
    // The child has a process group of its own. Ctrl-C of a terminal then reaches only this process, which passes it on
    // once: a second SIGINT would end most programs before they have stopped their servers.
    const child = spawn(command, [...args], {
      cwd: this.#folder,
      env: { ...this.#env, ...stepEnv, ...env },
      stdio: ['ignore', 'inherit', 'inherit'],
      detached: true,
    })
    this.#child = child
    /** @type {string | null} */
    const detail = await new Promise((resolve) => {
      child.once('error', (error) => resolve(error.message))
      child.once('exit', (code, signal) => {
        if (signal !== null) resolve(`ended by ${signal}`)
        else resolve(code === 0 ? null : `exit code ${code}`)
      })
    })
    this.#child = undefined
    if (this.#interruptedBy !== null) await endGroup(child.pid)
    const isPassed = detail === null && this.#interruptedBy === null
    return {
      passed: isPassed,
      detail: this.#interruptedBy === null ? detail : `interrupted by ${this.#interruptedBy}`,
      wallMs: performance.now() - startedAt,
    }
  }
}

/**
 * Ends what an interrupted step left running, such as the workers of Vitest. Servers are in groups of their own, and
 * their guards stop them.
 * @param {number | undefined} group
 */
async function endGroup(group) {
  if (group === undefined || !signalGroup(group, 'SIGTERM')) return
  const end = performance.now() + graceMs
  while (performance.now() < end) {
    await sleep(20)
    if (!signalGroup(group, 0)) return
  }
  signalGroup(group, 'SIGKILL')
}

/**
 * @param {number} group
 * @param {NodeJS.Signals | 0} signal
 * @returns {boolean} whether the group has a process
 */
function signalGroup(group, signal) {
  try {
    process.kill(-group, signal)
    return true
  } catch {
    // ESRCH: the group has no process any more.
    return false
  }
}
