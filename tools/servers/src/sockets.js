// @ts-check
// Which process has which connection, as Linux tells.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** The local port of every TCP connection, by the number of its socket. @returns {ReadonlyMap<string, number>} */
function portsBySocket() {
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)
  return new Map(
    lines.map((line) => {
      const [, local = '', , , , , , , , inode = ''] = line.trim().split(/\s+/)
      return [inode, Number.parseInt(local.slice(local.indexOf(':') + 1), 16)]
    }),
  )
}

/**
 * The local ports of all TCP connections of a process.
 * @param {number} pid
 * @returns {ReadonlySet<number>} Empty if it has ended.
 */
export function portsOfProcess(pid) {
  const ports = portsBySocket()
  return new Set(socketsOf(pid).flatMap((inode) => ports.get(inode) ?? []))
}

/** @param {number} pid @returns {readonly string[]} */
function socketsOf(pid) {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => inodeOf(`/proc/${pid}/fd/${fd}`))
  } catch {
    // It has ended, or belongs to another user.
    return []
  }
}

/** @param {string} path @returns {readonly string[]} */
function inodeOf(path) {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(path))?.slice(1) ?? []
  } catch {
    return []
  }
}

/** This process and those that it has started. @returns {readonly number[]} */
function ownFamily() {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return [process.pid, ...pids.map(Number).filter((pid) => parentOf(pid) === process.pid)]
}

/** @param {number} pid @returns {number | undefined} */
function parentOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return undefined
  }
}

/**
 * Which of this process and those that it has started has the connection from a local port. Others are not looked at, since
 * that would take seconds on a busy machine.
 * @param {number} port
 * @returns {number | undefined}
 */
export function ownerOfPort(port) {
  const ports = portsBySocket()
  return ownFamily().find((pid) => socketsOf(pid).some((inode) => ports.get(inode) === port))
}
