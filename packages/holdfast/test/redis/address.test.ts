import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRedisUrl, REDIS_SCHEMES, type RedisAddress } from '../../src/backends/redis/address.js'
import { connect } from '../../src/connect/connect.js'
import { InvalidInputError } from '../../src/core/errors.js'
import { rejection } from './nx-support.js'

const PLAIN = {
  topology: 'single',
  tls: false,
  username: undefined,
  password: undefined,
  database: 0,
  masterName: '',
}

const SENTINEL = { topology: 'sentinel', masterName: 'main' }

function hosts(...places: readonly [host: string, port: number][]): { hosts: object[] } {
  return { hosts: places.map(([host, port]) => ({ host, port })) }
}

const GOOD: readonly [url: string, parts: object][] = [
  ['redis://localhost', hosts(['localhost', 6379])],
  ['redis://', hosts(['localhost', 6379])],
  ['redis://:7000', hosts(['localhost', 7000])],
  ['REDIS://Example.org:1', hosts(['Example.org', 1])],
  ['redis://127.0.0.1:65535/', hosts(['127.0.0.1', 65_535])],
  ['redis://host/3', { ...hosts(['host', 6379]), database: 3 }],
  ['redis://host/3/', { ...hosts(['host', 6379]), database: 3 }],
  ['redis://[::1]:7000/1', { ...hosts(['::1', 7000]), database: 1 }],
  ['redis://[2001:db8::7]', hosts(['2001:db8::7', 6379])],
  ['redis://[::ffff:127.0.0.1]:1', hosts(['::ffff:127.0.0.1', 1])],
  ['rediss://host', { ...hosts(['host', 6379]), tls: true }],
  ['redis://user:word@host', { ...hosts(['host', 6379]), username: 'user', password: 'word' }],
  ['redis://user@host', { ...hosts(['host', 6379]), username: 'user' }],
  ['redis://:word@host', { ...hosts(['host', 6379]), password: 'word' }],
  ['redis://user:@host', { ...hosts(['host', 6379]), username: 'user', password: '' }],
  ['redis://@host', hosts(['host', 6379])],
  ['redis://u%40x:a%3Ab%2Fc%40d%3Fe%23f%25g@host', { username: 'u@x', password: 'a:b/c@d?e#f%g' }],
  ['redis://:one:two@host', { password: 'one:two' }],
  ['redis://:%F0%9F%94%91%20@host', { password: '🔑 ' }],
  ['redis+sentinel://a,b:2,[::1]:3/main', hosts(['a', 26_379], ['b', 2], ['::1', 3])],
  ['redis+sentinel://a/my%2Fmain/4', { masterName: 'my/main', database: 4 }],
  ['rediss+sentinel://a/main', { tls: true }],
  ['redis+cluster://a:1,b:2,c:3', { topology: 'cluster', ...hosts(['a', 1], ['b', 2], ['c', 3]) }],
  ['rediss+cluster://a', { topology: 'cluster', tls: true }],
  ['redis+redlock://a,b,c', { topology: 'redlock', ...hosts(['a', 6379], ['b', 6379], ['c', 6379]) }],
  ['rediss+redlock://a', { topology: 'redlock', tls: true }],
]

const BAD: readonly [what: string, url: string][] = [
  ['no scheme', 'localhost:6379'],
  ['another scheme', 'http://localhost'],
  ['a scheme that only looks like one', 'redis+other://localhost'],
  ['one slash', 'redis:/localhost'],
  ['nothing', ''],
  ['a port of words', 'redis://host:port'],
  ['no port after the colon', 'redis://host:'],
  ['port 0', 'redis://host:0'],
  ['a port beyond the last', 'redis://host:65536'],
  ['a negative port', 'redis://host:-1'],
  ['an IPv6 address without brackets', 'redis://::1'],
  ['an open bracket', 'redis://[::1'],
  ['a space in a host', 'redis://my host'],
  ['two hosts for one server', 'redis://a,b'],
  ['a database of words', 'redis://host/main'],
  ['a negative database', 'redis://host/-1'],
  ['a database beyond the last', 'redis://host/65536'],
  ['two databases', 'redis://host/1/2'],
  ['a database in a cluster', 'redis+cluster://host/1'],
  ['a sentinel without a master', 'redis+sentinel://host'],
  ['a sentinel with an empty master', 'redis+sentinel://host/'],
  ['half an escape in a password', 'redis://:100%@host'],
  ['half an escape in a host', 'redis://ho%st'],
  ['an escape that is no text', 'redis://:%ff@host'],
  ['an option twice', 'redis://host?prefix=a&prefix=b'],
  ['a fragment', 'redis://host#1'],
  ['a password with a slash in it', 'redis://:a/b@host'],
  ['a password with an at sign in it', 'redis://:a@b@host:1'],
]

describe('a URL of Redis', () => {
  test.each(GOOD)('%s', (url, parts) => {
    const { options, ...rest } = parseRedisUrl(url)
    const isSentinel = rest.topology === 'sentinel'
    expect(rest).toMatchObject({ ...PLAIN, ...(isSentinel ? SENTINEL : {}), ...parts })
    expect(options).toEqual(new Map())
  })

  test('has options behind a question mark', () => {
    const { options } = parseRedisUrl(
      'redis://host/2?prefix=a%26b:&ca=%2Fetc%2Fca.pem&driver=redis&empty=&bare',
    )
    expect([...options]).toEqual([
      ['prefix', 'a&b:'],
      ['ca', '/etc/ca.pem'],
      ['driver', 'redis'],
      ['empty', ''],
      ['bare', ''],
    ])
  })

  test.each(BAD)('with %s is refused', (_what, url) => {
    expect(() => parseRedisUrl(url)).toThrow(InvalidInputError)
  })

  test.each([
    ['an unknown option', 'colour=hunter2', 'colour'],
    ['a driver that there is not', 'driver=other', 'driver'],
  ])('with %s is refused before anything is opened', async (_what, option, named) => {
    const error = await rejection(connect(`redis://user:hunter2@127.0.0.1:1?${option}`))
    expect(error).toMatchObject({ code: 'INVALID_INPUT' })
    expect(String(error)).toContain(named)
    expect(inspect(error)).not.toContain('hunter2')
  })

  test('comes out as it went in', () => {
    const word = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
    const address = fc.record({
      username: word,
      password: word,
      host: fc.constantFrom('host', 'a.example', '10.0.0.1'),
      port: fc.integer({ min: 1, max: 65_535 }),
      database: fc.integer({ min: 0, max: 65_535 }),
      prefix: word,
    })
    fc.assert(
      fc.property(address, ({ username, password, host, port, database, prefix }) => {
        const login = `${encodeURIComponent(username)}:${encodeURIComponent(password)}`
        const url = `redis://${login}@${host}:${port}/${database}?prefix=${encodeURIComponent(prefix)}`
        const expected: RedisAddress = {
          ...PLAIN,
          topology: 'single',
          hosts: [{ host, port }],
          username,
          password,
          database,
          options: new Map([['prefix', prefix]]),
        }
        expect(parseRedisUrl(url)).toEqual(expected)
      }),
    )
  })

  test('never shows its password in a message, whatever is wrong with it', () => {
    const scheme = fc.constantFrom(...REDIS_SCHEMES, 'redis+', 'http')
    const mess = fc.string({ unit: fc.constantFrom(...Array.from('@:/?#[]%,&=. aZ9')), maxLength: 12 })
    fc.assert(
      fc.property(scheme, mess, mess, mess, (name, before, after, rest) => {
        const url = `${name}://${before}:hunter2${after}@${rest}`
        try {
          parseRedisUrl(url)
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidInputError)
          expect(inspect(error, { showHidden: true })).not.toContain('hunter2')
        }
      }),
      { numRuns: 5_000 },
    )
  })

  test('whose password was not escaped does not show it when it is taken for an option or a path', async () => {
    const messes = [
      'p?hunter2',
      '1?hunter2',
      '1?hunter2=1',
      '1?a=hunter2',
      '1/hunter2',
      '1#hunter2',
      '1@hunter2',
    ]
    for (const password of messes) {
      const error = await rejection(connect(`redis://:${password}@127.0.0.1:1`))
      expect(error).toMatchObject({ code: 'INVALID_INPUT' })
      expect(inspect(error)).not.toContain('hunter2')
    }
  })
})
