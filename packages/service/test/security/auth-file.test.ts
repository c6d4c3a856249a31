// @module-tag secrets
import { chmod, chown, mkdtemp, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { addToken, keepReaders, readAuth, removeToken } from '../../src/security/auth-edit.js'
import { AuthFileError, checkAuth, parseAuth } from '../../src/security/auth-entries.js'
import { AuthFile, openAuth } from '../../src/security/auth-file.js'
import { digestOfToken } from '../../src/security/bearer-tokens.js'
import type { LogLine } from '../../src/security/log-line.js'

/** T5 and T9: tokens that cannot be guessed, kept as digests, with rights by prefix. */

let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-auth-'))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

const SECRET = 'hft_SECRETsecretSECRETsecretSECRETsecretSECRETs'
const right = { prefix: 'jobs/', can: ['acquire', 'inspect'] }
const entry = { name: 'ci', sha256: digestOfToken(SECRET), rights: [right] }

describe('the text of an auth file', () => {
  test('says who may do what', () => {
    const tokens = { tokens: [{ ...entry, maxTtlMs: 5_000, expires: '2099-01-01T00:00:00Z' }] }
    expect(parseAuth(JSON.stringify(tokens))).toEqual(tokens)
  })

  const broken: [string, unknown, RegExp][] = [
    ['no object', [], /the file must be an object/],
    ['no tokens', {}, /has no `tokens`/],
    ['a field that is not known', { tokens: [], [SECRET]: 1 }, /has a field besides tokens/],
    ['tokens that are no list', { tokens: {} }, /tokens must be a list/],
    ['an entry that is none', { tokens: [SECRET] }, /tokens\[0\] must be an object/],
    ['a token in place of its digest', { tokens: [{ ...entry, sha256: SECRET }] }, /sha256 must be 64 hex/],
    ['a token as a name', { tokens: [{ ...entry, name: `${SECRET} x` }] }, /tokens\[0\]\.name must be/],
    ['a field beside the others', { tokens: [{ ...entry, token: SECRET }] }, /has a field besides/],
    ['no rights', { tokens: [{ ...entry, rights: [] }] }, /rights is empty/],
    [
      'a right that is spelt wrong',
      { tokens: [{ ...entry, rights: [{ ...right, can: ['aquire'] }] }] },
      /can\[0\] must be one of acquire/,
    ],
    ['no right in a right', { tokens: [{ ...entry, rights: [{ ...right, can: [] }] }] }, /can is empty/],
    ['a right twice', { tokens: [{ ...entry, rights: [{ ...right, can: ['break', 'break'] }] }] }, /twice/],
    ['no prefix', { tokens: [{ ...entry, rights: [{ can: ['break'] }] }] }, /has no `prefix`/],
    [
      'a prefix with a line break',
      { tokens: [{ ...entry, rights: [{ ...right, prefix: 'a\nb' }] }] },
      /prefix must be/,
    ],
    [
      'a prefix that is no text',
      { tokens: [{ ...entry, rights: [{ ...right, prefix: null }] }] },
      /prefix must be/,
    ],
    ['a ttl of nothing', { tokens: [{ ...entry, maxTtlMs: 0 }] }, /maxTtlMs must be a whole number/],
    ['a ttl beyond all timers', { tokens: [{ ...entry, maxTtlMs: 2 ** 31 }] }, /maxTtlMs must be/],
    ['an end that is no time', { tokens: [{ ...entry, expires: 'tomorrow' }] }, /expires must be a time/],
    [
      'an end that does not exist',
      { tokens: [{ ...entry, expires: '2027-13-01T00:00:00Z' }] },
      /no time that exists/,
    ],
    ['a name twice', { tokens: [entry, { ...entry, sha256: digestOfToken('x') }] }, /same `name`/],
    ['a token twice', { tokens: [entry, { ...entry, name: 'other' }] }, /same `sha256`/],
  ]
  test.each(broken)('is refused with %s, and the error repeats no secret', (_what, value, message) => {
    let error: unknown
    try {
      checkAuth(value)
    } catch (thrown) {
      error = thrown
    }
    expect(error).toBeInstanceOf(AuthFileError)
    expect(String(error)).toMatch(message)
    expect(String(error)).not.toContain('SECRET')
  })

  test('that is no JSON is refused without being quoted', () => {
    expect(() => parseAuth(`{"tokens": ["${SECRET}`)).toThrow(/^it is not JSON$/)
  })
})

describe('the file', () => {
  test('is written whole, for its owner only, and never with the token', async () => {
    const path = join(folder, 'made.json')
    const token = await addToken(path, { name: 'ci', rights: [{ prefix: '', can: ['acquire'] }] })
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await readFile(path, 'utf8')).not.toContain(token.slice(4))
    expect((await readAuth(path)).tokens.map(({ name }) => name)).toEqual(['ci'])
    await expect(addToken(path, { name: 'ci', rights: [{ prefix: '', can: ['break'] }] })).rejects.toThrow(
      /already/,
    )
    expect(await removeToken(path, 'nobody')).toBe(false)
    expect(await removeToken(path, 'ci')).toBe(true)
    expect((await readAuth(path)).tokens).toEqual([])
  })

  test.skipIf(process.platform === 'win32')(
    titled(
      'stays readable for its group when it is changed, and for nobody else',
      process.platform === 'win32' ? 'does not apply to Windows' : null,
    ),
    async () => {
      const path = join(folder, 'shared.json')
      for (const name of ['a', 'b', 'c', 'd']) {
        await addToken(path, { name, rights: [{ prefix: '', can: ['acquire'] }] })
      }
      const before = await stat(path)
      const isRoot = process.getuid?.() === 0
      const [uid, gid] = isRoot ? [4_001, 4_002] : [before.uid, before.gid]
      await chown(path, uid, gid)
      for (const [mode, kept, name] of [
        [0o640, 0o640, 'a'],
        [0o600, 0o600, 'b'],
        [0o440, 0o440, 'c'],
        [0o666, 0o640, 'd'],
      ] as const) {
        await chmod(path, mode)
        expect(await removeToken(path, name)).toBe(true)
        const after = await stat(path)
        expect([name, after.mode & 0o777, after.uid, after.gid]).toEqual([name, kept, uid, gid])
      }
    },
  )

  test('is not changed by whoever could not let its group read it any more', async () => {
    /** A file of user 1, of the groups 1 and 2, as the system lets an ordinary user treat it. */
    const madeBy = (groups: readonly number[]) => {
      const own = { uid: 1, gid: 1, mode: 0o600 }
      const stat = async (): Promise<typeof own> => ({ ...own })
      const chown = async (uid: number, gid: number): Promise<void> => {
        if (uid !== own.uid || !groups.includes(gid)) throw Object.assign(new Error(), { code: 'EPERM' })
        own.gid = gid
      }
      const chmod = async (mode: number | string): Promise<void> => {
        own.mode = Number(mode)
      }
      return { own, stat, chown, chmod }
    }
    const member = madeBy([1, 2])
    await keepReaders(member, { uid: 0, gid: 2, mode: 0o100640 })
    expect(member.own).toEqual({ uid: 1, gid: 2, mode: 0o640 })
    const stranger = madeBy([1])
    const kept = keepReaders(stranger, { uid: 1, gid: 2, mode: 0o100640 })
    await expect(kept).rejects.toThrow(AuthFileError)
    expect(stranger.own).toEqual({ uid: 1, gid: 1, mode: 0o600 })
    await keepReaders(stranger, { uid: 1, gid: 2, mode: 0o100600 })
    expect(stranger.own).toEqual({ uid: 1, gid: 1, mode: 0o600 })
  })

  test('is changed by one at a time, so that no revoked token comes back', async () => {
    const path = join(folder, 'contended.json')
    const names = Array.from({ length: 8 }, (_, index) => `t${index}`)
    const outcomes = await Promise.allSettled(
      names.map((name) => addToken(path, { name, rights: [{ prefix: '', can: ['acquire'] }] })),
    )
    const added = names.filter((_, index) => outcomes[index]?.status === 'fulfilled')
    expect(added.length).toBeGreaterThan(0)
    expect((await readAuth(path)).tokens.map(({ name }) => name).sort()).toEqual(added)
  })

  test('is read again when it changes; a broken one changes nothing and is complained about once', async () => {
    const path = join(folder, 'watched.json')
    const first = await addToken(path, { name: 'first', rights: [{ prefix: '', can: ['acquire'] }] })
    const lines: LogLine[] = []
    const file = await openAuth(path, { log: (line) => lines.push(line), lookEveryMs: 3_600_000 })
    try {
      if (!(file instanceof AuthFile)) throw new Error('a file was expected')
      const inside = file.identify(first)
      expect(inside?.name).toBe('first')

      const second = await addToken(path, { name: 'second', rights: [{ prefix: '', can: ['acquire'] }] })
      await removeToken(path, 'first')
      await file.look()
      expect(file.identify(first)).toBeNull()
      expect(inside?.isValid()).toBe(false)
      expect(file.identify(second)?.name).toBe('second')

      await writeFile(path, `{"tokens": ["${SECRET}"]}`)
      await utimes(path, 1, 1)
      await file.look()
      await file.look()
      expect(file.identify(second)?.name).toBe('second')
      await rm(path)
      await file.look()
      await file.look()
      expect(file.identify(second)?.name).toBe('second')
      const complaints = lines.flatMap((line) =>
        line.kind === 'notice' && line.level === 'error' ? [line.text] : [],
      )
      expect(complaints).toHaveLength(2)
      expect(complaints[0]).toContain('tokens[0] must be an object')
      expect(complaints[1]).toContain('no such file')
      expect(JSON.stringify(lines)).not.toContain('SECRET')
    } finally {
      file.close()
    }
  })

  test('is tried again for as long as it cannot be read, and that is complained about once', async () => {
    const path = join(folder, 'busy.json')
    const first = await addToken(path, { name: 'first', rights: [{ prefix: '', can: ['acquire'] }] })
    const lines: LogLine[] = []
    let trouble: string | null = null
    const file = await openAuth(path, {
      log: (line) => lines.push(line),
      lookEveryMs: 3_600_000,
      read: async (from) => {
        if (trouble !== null) throw Object.assign(new Error('in the way'), { code: trouble })
        return await readFile(from, 'utf8')
      },
    })
    try {
      if (!(file instanceof AuthFile)) throw new Error('a file was expected')
      await removeToken(path, 'first')
      for (const [code, complaints] of [
        ['EMFILE', 1],
        ['EMFILE', 1],
        ['EIO', 2],
        ['EIO', 2],
      ] as const) {
        trouble = code
        await file.look()
        expect(file.identify(first)?.name).toBe('first')
        expect(lines).toHaveLength(complaints)
      }
      trouble = null
      await file.look()
      expect(file.identify(first)).toBeNull()
      expect(lines.at(-1)).toMatchObject({ level: 'info' })
      // It has been read since, so the same trouble is news.
      await addToken(path, { name: 'second', rights: [{ prefix: '', can: ['acquire'] }] })
      trouble = 'EIO'
      await file.look()
      const texts = lines.flatMap((line) => (line.kind === 'notice' ? [line.text] : []))
      expect(texts.filter((text) => text.includes('it cannot be read (EIO)'))).toHaveLength(2)
    } finally {
      file.close()
    }
  })

  test('that others may write is warned about; one that is not there is refused', async () => {
    const path = join(folder, 'loose.json')
    await writeFile(path, JSON.stringify({ tokens: [entry] }))
    await chmod(path, 0o666)
    const lines: LogLine[] = []
    const file = await openAuth(path, { log: (line) => lines.push(line) })
    file.close()
    expect(lines).toMatchObject([{ kind: 'notice', level: 'warning' }])
    await expect(openAuth(join(folder, 'nothing.json'))).rejects.toThrow(/no such file/)
  })
})
