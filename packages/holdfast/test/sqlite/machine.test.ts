import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { elapsedMs, type MachineFacts, thisMachine } from '../../src/backends/sqlite/clock.js'
import { UnsupportedError } from '../../src/core/errors.js'

function facts(changes: Partial<MachineFacts> & { readonly files?: Record<string, string> }): MachineFacts {
  return {
    platform: 'linux',
    readText: async (path) => {
      const text = changes.files?.[path]
      if (text === undefined) throw Object.assign(new Error(`no ${path}`), { code: 'ENOENT' })
      return text
    },
    command: async () => {
      throw new Error('no such command')
    },
    monotonicNs: () => 5_000_000_000n,
    ...changes,
  }
}

const BOOT = '/proc/sys/kernel/random/boot_id'
const OFFSETS = '/proc/self/timens_offsets'

describe('the machine as the store', () => {
  it('has the boot id of Linux', async () => {
    const machine = await thisMachine(facts({ files: { [BOOT]: 'a2d1c7f0-0000\n' } }))
    expect(machine.bootId).toBe('a2d1c7f0-0000')
    expect(machine.nowMs()).toBe(5_000)
  })

  it('has the boot session of macOS', async () => {
    const command = async (file: string, args: readonly string[]): Promise<string> =>
      `${file} ${args.join(' ')}\n`
    const machine = await thisMachine(facts({ platform: 'darwin', command }))
    expect(machine.bootId).toBe('/usr/sbin/sysctl -n kern.bootsessionuuid')
  })

  it('is refused elsewhere', async () => {
    await expect(thisMachine(facts({ platform: 'win32' }))).rejects.toThrow(UnsupportedError)
  })

  it('is refused where the boot id cannot be read or is empty', async () => {
    await expect(thisMachine(facts({}))).rejects.toThrow(UnsupportedError)
    await expect(thisMachine(facts({ files: { [BOOT]: '\n' } }))).rejects.toThrow(UnsupportedError)
  })

  it.each([
    ['monotonic           3         0\nboottime            9         0\n', 2_000],
    ['monotonic          -2 500000000\nboottime            0         0\n', 6_500],
    ['monotonic           0         0\nboottime            7         0\n', 5_000],
  ])('takes the offset of a time namespace off: %j', async (offsets, expected) => {
    const machine = await thisMachine(facts({ files: { [BOOT]: 'a2d1c7f0-0000', [OFFSETS]: offsets } }))
    expect(machine.nowMs()).toBe(expected)
  })

  it('has one clock and one boot id in all processes', async () => {
    const machine = await thisMachine()
    const before = elapsedMs()
    const other = Number(execFileSync(process.execPath, ['-p', 'Number(process.hrtime.bigint()) / 1e6']))
    expect(other).toBeGreaterThan(before)
    expect(other).toBeLessThan(elapsedMs())
    expect((await thisMachine()).bootId).toBe(machine.bootId)
  })
})
