// @ts-check
// Which process has which connection, as Linux tells.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/**
 * The local ports of all TCP connections of a process.
 * @param {number} pid
 * @returns {ReadonlySet<number>} Empty if it has ended.
 */
export function portsOfProcess(pid) {
  const inodes = new Set(socketsOf(pid))
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)
  const ports = lines.flatMap((line) => {
    const [, local = '', , , , , , , , inode = ''] = line.trim().split(/\s+/)
    return inodes.has(inode) ? [Number.parseInt(local.slice(local.indexOf(':') + 1), 16)] : []
  })
  return new Set(ports)
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

/**
 * The process that has the connection from a local port.
 * @param {number} port
 * @returns {number | undefined} Undefined if there is none that this user may see.
 */
export function ownerOfPort(port) {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map(Number).find((pid) => portsOfProcess(pid).has(port))
}
