/**
 * The store's time is the machine's: its monotonic clock, which all processes share and nobody can step,
 * with the boot's id beside it. This is the only file of the backend that reads a clock, starts a timer or
 * draws a number.
 */

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { UnsupportedError } from '../../core/errors.js'

export interface Machine {
  /** Milliseconds on a clock that every process of the machine reads alike and that never steps. */
  nowMs(): number
  /** Changes with every boot, because the clock starts again then. */
  readonly bootId: string
}

/** Where the facts about the machine come from, so that a test can play another machine. */
export interface MachineFacts {
  readonly platform: string
  readText(path: string): Promise<string>
  command(file: string, args: readonly string[]): Promise<string>
  monotonicNs(): bigint
}

const REAL_FACTS: MachineFacts = {
  platform: process.platform,
  readText: (path) => readFile(path, 'utf8'),
  command: async (file, args) => (await promisify(execFile)(file, [...args])).stdout,
  monotonicNs: () => process.hrtime.bigint(),
}

export async function thisMachine(facts: MachineFacts = REAL_FACTS): Promise<Machine> {
  const bootId = await readBootId(facts)
  const offsetNs = await readClockOffset(facts)
  return { nowMs: () => Number(facts.monotonicNs() - offsetNs) / 1e6, bootId }
}

async function readBootId(facts: MachineFacts): Promise<string> {
  let bootId: string
  try {
    bootId = (await readBootIdText(facts)).trim()
  } catch (cause) {
    throw new UnsupportedError(
      'The id of this boot could not be read, and without it nobody can tell whether a stored lease is ' +
        'from before a reboot. On Linux, /proc must be mounted.',
      { backend: 'sqlite', cause },
    )
  }
  if (bootId.length >= 8) return bootId
  throw new UnsupportedError('The system gave an empty boot id.', { backend: 'sqlite' })
}

function readBootIdText(facts: MachineFacts): Promise<string> {
  switch (facts.platform) {
    case 'linux':
      return facts.readText('/proc/sys/kernel/random/boot_id')
    case 'darwin':
      return facts.command('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid'])
    default:
      throw new UnsupportedError(
        `The SQLite backend knows the boot id on Linux and macOS only, not on ${facts.platform}. ` +
          'Use another store.',
        { backend: 'sqlite' },
      )
  }
}

/**
 * A Linux time namespace (some containers have one) shifts the monotonic clock. The kernel tells by how
 * much, see time_namespaces(7); taking it off again leaves the one clock that all processes of the machine
 * share.
 */
async function readClockOffset(facts: MachineFacts): Promise<bigint> {
  if (facts.platform !== 'linux') return 0n
  let text: string
  try {
    text = await facts.readText('/proc/self/timens_offsets')
  } catch (error) {
    // A kernel without time namespaces has no such file, and no offset.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return 0n
    throw error
  }
  const match = /^(?:monotonic|1)\s+(-?\d+)\s+(\d+)\s*$/m.exec(text)
  if (match === null) return 0n
  return BigInt(match[1] as string) * 1_000_000_000n + BigInt(match[2] as string)
}

/** What the machine takes for the time of day, asked once in a boot; after that only its monotonic clock counts. */
export function wallMs(): number {
  return Date.now()
}

/** Real time for the backend's own patience with a busy file, whatever clock the leases are judged by. */
export function elapsedMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Between half and one and a half times `ms`, so that processes that met once do not meet again. */
export function jittered(ms: number): number {
  return ms * (0.5 + Math.random())
}

/** Lets everything else that is ready run first. */
export function breathe(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Pauses that can all be ended early, for the moment when the backend closes. */
export class Pauses {
  readonly #running = new Set<() => void>()

  start(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        this.#running.delete(end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      this.#running.add(end)
    })
  }

  endAll(): void {
    for (const end of this.#running) end()
  }
}
