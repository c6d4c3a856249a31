// @ts-check
// Where the steps of a run keep their temporary files, the data of the servers among them.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const memoryFolder = '/dev/shm'
const prefix = 'holdfast-test-'

/** The number of the file system `tmpfs`, from statfs(2). */
const tmpfsType = 0x0102_1994

/** A whole run needs less than 1 GiB at any time. */
const roomBytes = 4 * 1024 ** 3

/**
 * Keeps temporary files in memory, where the machine has room for them. Servers and SQLite wait for the disk at each commit, and
 * a disk that is busy with something else can let a lease run out. No test cuts the power, so no test needs the disk.
 */
export class TemporaryFolder {
  #path

  /**
   * @param {NodeJS.ProcessEnv} env
   * @param {string} [parent] A folder in memory.
   */
  constructor(env, parent = memoryFolder) {
    // A folder that the caller chose stays.
    this.#path = env['TMPDIR'] === undefined && hasRoom(parent) ? makeIn(parent) : null
  }

  /** The folder in memory; null where the steps use the folder of the system. */
  get path() {
    return this.#path
  }

  /** What a step needs in its environment. @returns {Readonly<Record<string, string>>} */
  get env() {
    return this.#path === null ? {} : { TMPDIR: this.#path }
  }

  remove() {
    // A server that was just stopped may still write.
    if (this.#path !== null) rmSync(this.#path, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** @param {string} parent */
function hasRoom(parent) {
  try {
    const { type, bavail, bsize } = statfsSync(parent)
    return type === tmpfsType && bavail * bsize >= roomBytes && process.availableMemory() >= roomBytes
  } catch {
    // Only Linux has this folder.
    return false
  }
}

/**
 * @param {string} parent
 * @returns {string | null} null where programs in it cannot be started, as in many containers
 */
function makeIn(parent) {
  removeAbandoned(parent)
  const folder = mkdtempSync(join(parent, `${prefix}${process.pid}-`))
  // PostgreSQL runs as another user, which must reach its own folder below this one.
  chmodSync(folder, 0o755)
  const program = join(folder, 'program')
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
  const { status } = spawnSync(program)
  rmSync(program)
  if (status === 0) return folder
  rmSync(folder, { recursive: true })
  return null
}

/** Removes the folders of runs that were killed: they would take memory until the machine restarts. @param {string} parent */
function removeAbandoned(parent) {
  for (const name of readdirSync(parent)) {
    const pid = new RegExp(`^${prefix}(\\d+)-`).exec(name)?.[1]
    if (pid !== undefined && !isRunning(Number(pid))) {
      rmSync(join(parent, name), { recursive: true, force: true })
    }
  }
}

/** @param {number} pid */
function isRunning(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it runs and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
