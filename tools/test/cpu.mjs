// @ts-check
// Measures the CPU time of all processes of a run, by kind of process, from the /proc of Linux.
import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'

/**
 * A line of /proc/PID/stat. Times are in clock ticks. See proc(5).
 * @typedef {object} ProcessStat
 * @property {number} pid
 * @property {string} name
 * @property {number} parent
 * @property {number} group
 * @property {number} session
 * @property {number} ownTicks Of the process itself.
 * @property {number} waitedTicks Of the children that have ended and that it has waited for, and of theirs.
 * @property {string} startedAt Together with the pid, this identifies a process.
 */

/** @typedef {{ readonly kind: string, readonly processes: number, readonly ms: number }} KindRow */
/** @typedef {{ readonly totalMs: number, readonly kinds: readonly KindRow[] }} CpuReport */
/** @typedef {{ readonly stat: ProcessStat, readonly command: () => readonly string[] }} Seen */

/** `getconf CLK_TCK` is 100 on every Linux that Node.js supports. */
const msPerTick = 10
const sampleMs = 500
/** A new process shows the command of its parent until it calls exec, so the command is read again a few times. */
const commandReads = 5
const tooShort = 'processes shorter than the sampling'

/**
 * @param {string} text
 * @returns {ProcessStat}
 */
export function parseStat(text) {
  // The name stands in parentheses and may itself contain spaces and parentheses.
  const nameEnd = text.lastIndexOf(')')
  const fields = text.slice(nameEnd + 2).split(' ')
  const number = (/** @type {number} */ index) => Number(fields[index] ?? 0)
  return {
    pid: Number.parseInt(text, 10),
    name: text.slice(text.indexOf('(') + 1, nameEnd),
    parent: number(1),
    group: number(2),
    session: number(3),
    ownTicks: number(11) + number(12),
    waitedTicks: number(13) + number(14),
    startedAt: fields[19] ?? '',
  }
}

/** Programs that are named by their file name, and the kind that each counts as. */
const programs = new Map([
  ['initdb', 'postgres'],
  ['postgres', 'postgres'],
  ['pg_ctl', 'postgres'],
  ['mysqld', 'mysqld'],
  ['mariadbd', 'mariadbd'],
  ['mariadb-install-db', 'mariadbd'],
  ['etcd', 'etcd'],
  ['consul', 'consul'],
  ['memcached', 'memcached'],
  ['npm', 'build'],
  ['npx', 'build'],
])

const buildScripts = /^(npm|npx|npm-cli|npx-cli|tsc|tsdown|run|vite|rolldown|esbuild)(\.[cm]?js)?$/
/** Options of Node.js that are followed by a value. */
const optionsWithValue = new Set(['--require', '-r', '--import', '--loader', '--conditions', '-C'])

/**
 * @param {readonly string[]} command The command line; empty if it cannot be read any more.
 * @param {string} name The name of the process, for a process without a command line.
 */
export function kindOf(command, name) {
  const line = command.length === 0 ? name : command.join(' ')
  // Some programs replace their command line by a title such as 'postgres: walwriter' or 'redis-server *:6379 [sentinel]'.
  const program = basename(line.split(/[ :]/, 1)[0] ?? '')
  if (/^(chrome|chromium|headless_shell|chrome-headless-shell|chrome_crashpad)/.test(program))
    return 'chromium'
  if (/^redis-(server|sentinel)/.test(program)) {
    return /\[sentinel\]|--sentinel|redis-sentinel/.test(line) ? 'redis sentinel' : 'redis-server'
  }
  if (program === 'java') return /zookeeper/i.test(line) ? 'java (ZooKeeper)' : 'java (other)'
  // MySQL is started through the dynamic linker: ld-linux-x86-64.so.2 --library-path ... mysqld.
  if (program.startsWith('ld-linux')) {
    const loaded = command.slice(1).find((part) => programs.has(basename(part)))
    if (loaded !== undefined) return programs.get(basename(loaded)) ?? 'other'
  }
  if (/^node(\d|$)/.test(program)) return kindOfNode(command.slice(1))
  return programs.get(program) ?? `other: ${program}`
}

/** @param {readonly string[]} args */
function kindOfNode(args) {
  let script = ''
  for (let index = 0; index < args.length; index += 1) {
    const part = args[index] ?? ''
    if (part === '-e' || part === '--eval' || part === '-p') return 'node -e'
    if (optionsWithValue.has(part)) index += 1
    else if (part !== '' && !part.startsWith('-')) {
      script = part.replaceAll('\\', '/')
      break
    }
  }
  if (/\/vitest\/dist\/workers\//.test(script)) return 'vitest workers'
  if (/\/vitest(\.mjs)?$/.test(script)) return 'vitest main'
  if (/packages\/torture\/dist\/workers\//.test(script)) return 'torture workers'
  const file = basename(script)
  if (/\/tools\/test\//.test(`/${script}`)) return 'test runner'
  if (buildScripts.test(file)) return 'build'
  const inPackage = /(?:^|\/)packages\/([^/]+)\//.exec(script)?.[1]
  return inPackage === undefined ? `node ${file}`.trimEnd() : `node ${inPackage}: ${file}`
}

/**
 * The processes of a run: the root, and every process whose parent, process group or session belonged to the run when
 * the process was first seen.
 */
export class ProcessTable {
  #root
  /** @type {Map<string, { readonly pid: number, kind: string, ticks: number, reads: number }>} */
  #members = new Map()
  /** The processes of the last sample that do not belong to the run. @type {Set<string>} */
  #strangers = new Set()
  /** @type {ProcessStat | undefined} */
  #rootStat

  /** @param {number} root The pid of the runner. */
  constructor(root) {
    this.#root = root
  }

  /** @param {readonly Seen[]} processes All processes of the machine. */
  update(processes) {
    const strangers = new Set()
    const alive = new Set([this.#root])
    for (const { stat } of processes) if (this.#members.has(keyOf(stat))) alive.add(stat.pid)
    // A parent starts before its child, so one pass in the order of the starts finds grandchildren too.
    const ordered = processes.toSorted((a, b) => startOrder(a.stat, b.stat))
    for (const { stat, command } of ordered) {
      const key = keyOf(stat)
      if (stat.pid === this.#root) this.#rootStat = stat
      let member = this.#members.get(key)
      if (member === undefined) {
        if (this.#strangers.has(key) || !this.#belongs(stat, alive)) {
          strangers.add(key)
          continue
        }
        member = { pid: stat.pid, kind: '', ticks: 0, reads: 0 }
        this.#members.set(key, member)
        alive.add(stat.pid)
      }
      if (member.reads < commandReads) {
        member.kind = stat.pid === this.#root ? 'test runner' : kindOf(command(), stat.name)
        member.reads += 1
      }
      member.ticks = stat.ownTicks
    }
    this.#strangers = strangers
  }

  /** All CPU time until the last sample. A process that lived between two samples counts once it was waited for. */
  get totalMs() {
    const waited = this.#rootStat === undefined ? 0 : this.#rootStat.ownTicks + this.#rootStat.waitedTicks
    return Math.max(this.#seenTicks(), waited) * msPerTick
  }

  /** @returns {CpuReport} */
  report() {
    /** @type {Map<string, { processes: number, ms: number }>} */
    const byKind = new Map()
    for (const { kind, ticks } of this.#members.values()) {
      const row = byKind.get(kind) ?? { processes: 0, ms: 0 }
      byKind.set(kind, { processes: row.processes + 1, ms: row.ms + ticks * msPerTick })
    }
    const kinds = [...byKind].map(([kind, row]) => ({ kind, ...row }))
    const unseenMs = this.totalMs - this.#seenTicks() * msPerTick
    if (unseenMs > 0) kinds.push({ kind: tooShort, processes: 0, ms: unseenMs })
    return { totalMs: this.totalMs, kinds: kinds.toSorted((a, b) => b.ms - a.ms) }
  }

  #seenTicks() {
    let sum = 0
    for (const { ticks } of this.#members.values()) sum += ticks
    return sum
  }

  /**
   * @param {ProcessStat} stat
   * @param {ReadonlySet<number>} alive
   */
  #belongs({ pid, parent, group, session }, alive) {
    if (pid === this.#root || alive.has(parent)) return true
    // The group of the root can hold other processes of the shell that started it.
    return [group, session].some((leader) => leader !== this.#root && leader !== pid && alive.has(leader))
  }
}

/** @param {ProcessStat} stat */
function keyOf({ pid, startedAt }) {
  return `${pid}:${startedAt}`
}

/**
 * @param {ProcessStat} a
 * @param {ProcessStat} b
 */
function startOrder(a, b) {
  return Number(a.startedAt) - Number(b.startedAt) || a.pid - b.pid
}

/** Samples the processes of this process and its descendants until `stop`. */
export class CpuMeter {
  #table = new ProcessTable(process.pid)
  #isAvailable = readProcesses().length > 0
  /** @type {NodeJS.Timeout | undefined} */
  #timer

  start() {
    if (!this.#isAvailable) return
    this.#sample()
    this.#timer = setInterval(() => this.#sample(), sampleMs)
    this.#timer.unref()
  }

  /** The CPU time so far, or null on a system without /proc. */
  totalMs() {
    if (!this.#isAvailable) return null
    this.#sample()
    return this.#table.totalMs
  }

  /** @returns {CpuReport | null} */
  stop() {
    clearInterval(this.#timer)
    if (!this.#isAvailable) return null
    this.#sample()
    return this.#table.report()
  }

  #sample() {
    this.#table.update(readProcesses())
  }
}

/** @returns {Seen[]} */
function readProcesses() {
  /** @type {Seen[]} */
  const found = []
  for (const folder of namesIn('/proc')) {
    if (!/^\d+$/.test(folder)) continue
    const text = textOf(`/proc/${folder}/stat`)
    if (text === '') continue
    const command = () =>
      textOf(`/proc/${folder}/cmdline`)
        .split('\0')
        .filter((part) => part !== '')
    found.push({ stat: parseStat(text), command })
  }
  return found
}

/** @param {string} folder */
function namesIn(folder) {
  try {
    return readdirSync(folder)
  } catch {
    // There is no /proc on this system.
    return []
  }
}

/** @param {string} path */
function textOf(path) {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    // The process has ended.
    return ''
  }
}
