/**
 * Where the database may lie. WAL needs shared memory between the processes, and the leases need one clock
 * and one boot id: neither exists across machines, see https://sqlite.org/wal.html ("does not work over a
 * network filesystem").
 */

import { mkdir, open, stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { UnsupportedError } from '../../core/errors.js'
import { fileError } from './errors.js'

/** The magic numbers of statfs(2) and linux/magic.h, plus those that the file systems' own sources define. */
const NETWORK_TYPES: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x01021997, '9p'],
  [0x5346414f, 'AFS'],
  [0x6b414653, 'AFS'],
  [0x73757245, 'Coda'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x65735546, 'FUSE'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
  [0x564c, 'NCP'],
  [0x19830326, 'BeeGFS'],
  [0xaad7aaea, 'PanFS'],
  [0x013111a8, 'IBRIX'],
  [0xbacbacbc, 'VMware shared folder'],
  [0x786f4256, 'VirtualBox shared folder'],
  [0x7c7c6673, 'Parallels shared folder'],
])

/** The name of a file system that other machines may share, or null for one that is this machine's own. */
export function networkFileSystem(type: number, platform: string): string | null {
  // The numbers are Linux's. macOS numbers its file systems by the order in which they were registered.
  if (platform !== 'linux') return null
  // The kernel's field is signed on some architectures, and the numbers above have 32 bits.
  return NETWORK_TYPES.get(Number(BigInt.asUintN(32, BigInt(type)))) ?? null
}

export async function refuseNetworkFileSystem(path: string): Promise<void> {
  const { type } = await statfs(path)
  const found = networkFileSystem(type, process.platform)
  if (found === null) return
  throw new UnsupportedError(
    `${path} lies on ${found}, which other machines may share. SQLite's WAL and the machine's clock hold ` +
      'within one machine only. Use a path on a local disk, or a store that is a server.',
    { backend: 'sqlite' },
  )
}

/**
 * Makes the folder and the file where they are missing, for the owner's eyes only, and leaves those that
 * exist alone.
 */
export async function prepareFile(path: string): Promise<void> {
  const folder = dirname(path)
  try {
    await makeFolder(folder)
    await refuseNetworkFileSystem(folder)
    await createFile(path, folder)
    // The file may be a link that leads elsewhere.
    await refuseNetworkFileSystem(path)
  } catch (error) {
    throw fileError(error, path)
  }
}

/** Not with Node's own `recursive`, which tries for ever where nothing can be made, below /proc for one. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await stat(folder)
    return
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
  }
  const parent = dirname(folder)
  await makeFolder(parent)
  try {
    await mkdir(folder, 0o700)
  } catch (error) {
    // Somebody else was faster.
    if (!hasCode(error, 'EEXIST')) throw error
  }
  await syncFolder(parent)
}

/**
 * The exclusive flag matters beyond the mode: a file that exists is not opened here at all. Closing any
 * descriptor of a file drops all POSIX locks that this process has on it, those of another connection's
 * SQLite included.
 */
async function createFile(path: string, folder: string): Promise<void> {
  try {
    await (await open(path, 'wx', 0o600)).close()
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return
    throw error
  }
  await syncFolder(folder)
}

/** A power cut must not take away what was made, and the fence counter with it. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
