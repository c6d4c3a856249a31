// @ts-check
// A wall clock that can be set, for one server or one process of Node.js. libfaketime does it for programs in general,
// but Redis and PostgreSQL do not start with it and MySQL takes ten times as long; so there is a small library of our own,
// which is compiled on this machine when it is first needed.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, existsSync, openSync, writeSync } from 'node:fs'
import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { cacheFolder } from './cache.js'
import { requirePrograms } from './programs.js'

const run = promisify(execFile)
const source = fileURLToPath(new URL('../native/clock.c', import.meta.url))

/** What the library is compiled with. */
export const clockPrograms = ['gcc', 'libc.h']

/** A wall clock. It begins as that of the machine. Use `makeClock`. */
export class WallClock {
  #folder
  #offsetMs = 0

  /** @param {string} folder Has the library. */
  constructor(folder) {
    this.#folder = folder
    this.#write()
  }

  get #file() {
    return join(this.#folder, 'clock')
  }

  /** By how much it is ahead of the clock of the machine. */
  get offsetMs() {
    return this.#offsetMs
  }

  /** What a process needs in its environment to have this clock. */
  get env() {
    return { LD_PRELOAD: libraryIn(this.#folder), HOLDFAST_CLOCK: this.#file }
  }

  /** Sets it forward, or back. The monotonic clocks of the processes go on as before. @param {number} ms */
  step(ms) {
    this.#offsetMs += ms
    this.#write()
  }

  #write() {
    const bytes = Buffer.alloc(8)
    const nanoseconds = BigInt(Math.round(this.#offsetMs * 1_000_000))
    if (endianIsLittle) bytes.writeBigInt64LE(nanoseconds)
    else bytes.writeBigInt64BE(nanoseconds)
    // All at once and in place, since processes have it mapped into their memory.
    const file = openSync(this.#file, existsSync(this.#file) ? 'r+' : 'w', 0o644)
    writeSync(file, bytes, 0, bytes.length, 0)
    closeSync(file)
  }
}

const endianIsLittle = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1

/** @param {string} folder */
const libraryIn = (folder) => join(folder, 'clock.so')

/**
 * Makes a clock in a folder. The library is put there too: another user, as which a server may run, has to reach it.
 * @param {string} folder
 * @returns {Promise<WallClock>}
 */
export async function makeClock(folder) {
  requirePrograms(clockPrograms)
  await copyFile(await library(), libraryIn(folder))
  await chmod(libraryIn(folder), 0o755)
  return new WallClock(folder)
}

/** @type {Promise<string> | undefined} */
let compiled

/** The library, compiled once for each version of its source. @returns {Promise<string>} */
function library() {
  compiled ??= compile()
  compiled.catch(() => {
    compiled = undefined
  })
  return compiled
}

async function compile() {
  const { stdout: version } = await run('gcc', ['--version'])
  const digest = createHash('sha256')
    .update(version)
    .update(await readFile(source))
    .digest('hex')
  const path = join(cacheFolder(), `clock-${digest.slice(0, 16)}.so`)
  if (existsSync(path)) return path
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-clock-'))
  try {
    const made = libraryIn(folder)
    await run('gcc', ['-shared', '-fPIC', '-O2', '-Wall', '-o', made, source, '-lpthread'])
    await mkdir(cacheFolder(), { recursive: true })
    // Another process may do the same at this moment; the file appears as a whole.
    const partial = `${path}.partial-${process.pid}`
    await copyFile(made, partial)
    await rename(partial, path)
    return path
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
