import { chmod, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { sqliteBackend } from '../../src/backends/sqlite/backend.js'
import { networkFileSystem } from '../../src/backends/sqlite/file-system.js'
import { BackendUnavailableError, InvalidInputError, UnsupportedError } from '../../src/core/errors.js'
import { FakeMachine, NO_SINK, openBackend, tempFolder } from './support.js'

describe('the place of the file', () => {
  it.each([
    [0x6969, 'NFS'],
    [0xff534d42, 'CIFS'],
    // As a signed number, which is how some architectures give it.
    [0xff534d42 - 2 ** 32, 'CIFS'],
    [0xfe534d42, 'SMB2'],
    [0x517b, 'SMB'],
    [0x01021997, '9p'],
    [0x5346414f, 'AFS'],
    [0x00c36400, 'Ceph'],
    [0x0bd00bd0, 'Lustre'],
    [0x47504653, 'GPFS'],
    [0x65735546, 'FUSE'],
  ])('of type %d is refused as %s', (type, name) => {
    expect(networkFileSystem(type, 'linux')).toBe(name)
  })

  it.each([
    ['ext4', 0xef53],
    ['xfs', 0x58465342],
    ['btrfs', 0x9123683e],
    ['tmpfs', 0x01021994],
    ['overlayfs', 0x794c7630],
    ['zfs', 0x2fc12fc1],
  ])('on %s is taken', (_name, type) => {
    expect(networkFileSystem(type, 'linux')).toBeNull()
  })

  it('is not judged by the numbers of Linux on another system', () => {
    expect(networkFileSystem(0x6969, 'darwin')).toBeNull()
  })

  it('gets modes for its owner only', async () => {
    const folder = join(await tempFolder(), 'a', 'b')
    const path = join(folder, 'locks.db')
    await openBackend({ path, machine: new FakeMachine() })
    expect((await stat(folder)).mode & 0o777).toBe(0o700)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect((await stat(`${path}-wal`)).mode & 0o777).toBe(0o600)
  })

  it('keeps the modes of what was there before', async () => {
    const folder = await tempFolder()
    const path = join(folder, 'locks.db')
    await writeFile(path, '')
    await chmod(path, 0o640)
    await chmod(folder, 0o750)
    await openBackend({ path, machine: new FakeMachine() })
    expect((await stat(folder)).mode & 0o777).toBe(0o750)
    expect((await stat(path)).mode & 0o777).toBe(0o640)
  })

  // A folder without the right to write would say the same, but root, who runs the tests here, has all
  // rights.
  it('below a regular file gives a typed error with its cause', async () => {
    const file = join(await tempFolder(), 'file')
    await writeFile(file, 'text')
    const opening = sqliteBackend({ path: join(file, 'locks.db') }).open(NO_SINK)
    const error = await opening.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(BackendUnavailableError)
    expect((error as BackendUnavailableError).cause).toBeInstanceOf(Error)
  })

  it('that is a folder gives a typed error', async () => {
    const path = join(await tempFolder(), 'locks.db')
    await mkdir(path)
    await expect(sqliteBackend({ path }).open(NO_SINK)).rejects.toThrow(BackendUnavailableError)
  })

  it('that is a link to nowhere gives a typed error', async () => {
    const folder = await tempFolder()
    const path = join(folder, 'locks.db')
    await symlink(join(folder, 'absent', 'target.db'), path)
    await expect(sqliteBackend({ path }).open(NO_SINK)).rejects.toThrow(BackendUnavailableError)
  })

  it.skipIf(process.platform !== 'linux')(
    titled(
      'on a file system of the kernel gives a typed error',
      process.platform === 'linux' ? null : 'needs Linux',
    ),
    async () => {
      // Nothing can be made below /proc, not even by root.
      const opening = sqliteBackend({ path: '/proc/holdfast/locks.db' }).open(NO_SINK)
      await expect(opening).rejects.toThrow(BackendUnavailableError)
    },
  )

  it('is no database in memory and no empty path', () => {
    expect(() => sqliteBackend({ path: ':memory:' })).toThrow(UnsupportedError)
    expect(() => sqliteBackend({ path: '' })).toThrow(InvalidInputError)
  })

  it('with other content stays as it is', async () => {
    const path = join(await tempFolder(), 'locks.db')
    const text = 'This is my diary, not a database. '.repeat(50)
    await writeFile(path, text)
    await expect(sqliteBackend({ path }).open(NO_SINK)).rejects.toThrow(UnsupportedError)
    expect(await readFile(path, 'utf8')).toBe(text)
  })
})
