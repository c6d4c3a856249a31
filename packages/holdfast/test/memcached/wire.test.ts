import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { MemcachedClient } from '../../src/backends/memcached/client.js'
import { Connection } from '../../src/backends/memcached/connection.js'
import {
  type Answer,
  type Expect,
  ReplyReader,
  statsIn,
  WireError,
} from '../../src/backends/memcached/wire.js'
import { BackendUnavailableError, HoldfastError, OutcomeUnknownError } from '../../src/core/errors.js'

function readAll(chunks: readonly Buffer[], expects: readonly Expect[]): Answer[] {
  const reader = new ReplyReader()
  const answers: Answer[] = []
  for (const chunk of chunks) {
    reader.push(chunk)
    while (reader.hasMore && answers.length < expects.length) {
      const answer = reader.next(expects[answers.length] as Expect)
      if (answer === null) break
      answers.push(answer)
    }
  }
  return answers
}

const ANSWERS =
  'HD c12\r\nVA 5 c3 t9\r\na\r\nbc\r\nEN\r\nNS\r\nSERVER_ERROR no\r\nSTAT a 1\r\nSTAT b x y\r\nEND\r\nVERSION 1\r\n'
const EXPECTS: readonly Expect[] = ['meta', 'meta', 'meta', 'meta', 'meta', 'list', 'line']

describe('answers', () => {
  it('are the same however the bytes are cut', () => {
    const whole = readAll([Buffer.from(ANSWERS)], EXPECTS)
    expect(whole).toHaveLength(EXPECTS.length)
    expect(whole[1]).toEqual({ kind: 'value', flags: 'c3 t9', data: 'a\r\nbc' })
    const lines = (whole[5] as Extract<Answer, { kind: 'list' }>).lines
    expect([...statsIn(lines)]).toEqual([
      ['a', '1'],
      ['b', 'x y'],
    ])
    const cuts = fc.array(fc.nat({ max: ANSWERS.length }), { maxLength: 12 })
    fc.assert(
      fc.property(cuts, (at) => {
        const places = [0, ...at.toSorted((a, b) => a - b), ANSWERS.length]
        const chunks = places.slice(1).map((end, index) => Buffer.from(ANSWERS.slice(places[index], end)))
        expect(readAll(chunks, EXPECTS)).toEqual(whole)
      }),
    )
  })

  it('that come in many small chunks are copied a few times only', () => {
    const [size, step] = [65_536, 16]
    const answer = Buffer.from(`VA ${size} c1\r\n${'x'.repeat(size)}\r\nHD\r\n`)
    const chunks = Array.from({ length: Math.ceil(answer.length / step) }, (_, index) =>
      answer.subarray(index * step, (index + 1) * step),
    )
    const joined = vi.spyOn(Buffer, 'concat')
    try {
      expect(readAll(chunks, ['meta', 'meta'])).toMatchObject([
        { kind: 'value' },
        { kind: 'line', text: 'HD' },
      ])
      const copied = joined.mock.results.reduce((sum, { value }) => sum + (value as Buffer).length, 0)
      expect(copied).toBeLessThan(4 * answer.length)
    } finally {
      joined.mockRestore()
    }
  })

  it('that are none make an error and nothing else', () => {
    const garbage = fc.uint8Array({ maxLength: 400 })
    fc.assert(
      fc.property(garbage, fc.constantFrom<Expect>('meta', 'line', 'list'), (bytes, expect_) => {
        try {
          readAll([Buffer.from(bytes)], [expect_, expect_, expect_])
        } catch (error) {
          expect(error).toBeInstanceOf(WireError)
        }
      }),
      { numRuns: 5_000 },
    )
    for (const bad of [
      'VA 999999999 c1\r\n',
      'VA -1\r\n',
      'VA 2\r\nabcd',
      'HELLO\r\n',
      '\n',
      `HD ${'x'.repeat(9_000)}`,
    ])
      expect(() => readAll([Buffer.from(bad)], ['meta'])).toThrow(WireError)
    expect(() => readAll([Buffer.from('END\r\nnope\r\n')], ['list', 'list'])).toThrow(WireError)
  })
})

describe('a connection', () => {
  it('forgets answered requests, also when there are always others under way', async () => {
    const socket = new Duplex({ read: () => {}, write: (_chunk, _encoding, done) => done() })
    const connection = new Connection(
      Object.assign(socket, { ref() {}, unref() {} }) as never,
      600_000,
      () => {},
    )
    ends.push(() => connection.close())
    const early = new WeakRef(await answered(connection, socket))
    for (let round = 0; round < 600; round += 1) await answered(connection, socket)
    // A weak reference is a strong one until the end of its turn.
    await new Promise((resolve) => setImmediate(resolve))
    setFlagsFromString('--expose-gc')
    ;(runInNewContext('gc') as () => void)()
    expect(early.deref()).toBeUndefined()
  })

  let last: Promise<Answer> | null = null

  /** The answer to the request before, while another one is under way. */
  async function answered(connection: Connection, socket: Duplex): Promise<Answer> {
    const before = last ?? connection.send('mn\r\n', 'meta')
    last = connection.send('mn\r\n', 'meta')
    last.catch(() => {})
    socket.emit('data', Buffer.from('HD\r\n'))
    return await before
  }
})

const ends: (() => void)[] = []
afterEach(() => {
  for (const end of ends.splice(0)) end()
})

const GREETING = ['VERSION 1.6.18\r\n', 'MN\r\nSTAT item_size_max 1048576\r\nSTAT cas_enabled yes\r\nEND\r\n']

/** A peer on the loopback address that greets like memcached and then does as it is told. */
async function clientOf(
  answer: (socket: Socket, request: string) => void,
  requestMs = 300,
): Promise<MemcachedClient> {
  const server = createServer((socket) => {
    let greeted = 0
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      const greeting = GREETING[greeted]
      greeted += 1
      if (greeting === undefined) answer(socket, chunk.toString('latin1'))
      else socket.write(greeting)
    })
    ends.push(() => socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = new MemcachedClient(
    { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    { requestMs },
  )
  ends.push(() => {
    client.close()
    server.close()
  })
  return client
}

describe('a client', () => {
  it('neither hangs nor crashes whatever comes back', async () => {
    const reply = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
      fc
        .constantFrom(
          'VA 10 c1\r\nabc',
          'HD c1\r\nHD c2\r\n',
          'VA 3\r\nabcdef',
          'END\r\n',
          'HD',
          'ERROR\r\n',
          'VA 99999999 t1\r\n',
        )
        .map((text) => Buffer.from(text)),
    )
    let next = Buffer.alloc(0)
    const client = await clientOf((socket, _request) => socket.write(next), 150)
    await fc.assert(
      fc.asyncProperty(reply, async (bytes) => {
        next = bytes
        const outcomes = await Promise.allSettled([
          client.request('mg a v c t\r\n', 'meta'),
          client.request('stats\r\n', 'list'),
        ])
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(HoldfastError)
        }
      }),
      { numRuns: 40 },
    )
  })

  it('gives up a connection that owes an answer, so that no later answer is taken for it', async () => {
    let isSilent = true
    const client = await clientOf((socket, request) => {
      if (!isSilent) socket.write(`HD c${request.length}\r\n`)
    })
    const before = (await client.greet(), client.generation)
    await expect(client.request('mn\r\n', 'meta')).rejects.toBeInstanceOf(OutcomeUnknownError)
    expect(client.generation).toBe(0)
    isSilent = false
    expect(await client.request('mg abc\r\n', 'meta')).toEqual({ kind: 'line', text: 'HD c8' })
    expect(client.generation).toBeGreaterThan(before)
    await expect(client.requestOn(before, 'md a C1\r\n', 'meta')).rejects.toBeInstanceOf(
      BackendUnavailableError,
    )
  })

  it('says that nothing was done where nobody is there, and does not try all the time', async () => {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    server.close()
    await once(server, 'close')
    const client = new MemcachedClient({ host: '127.0.0.1', port }, { requestMs: 200 })
    ends.push(() => client.close())
    const errors = await Promise.all(
      Array.from({ length: 5 }, () => client.request('mn\r\n', 'meta').catch((error: unknown) => error)),
    )
    for (const error of errors) expect(error).toBeInstanceOf(BackendUnavailableError)
    expect(new Set([...errors, await client.greet().catch((error: unknown) => error)]).size).toBe(1)
  })

  it.each([
    ['an old server', 'VERSION 1.5.22\r\nERROR\r\nSTAT a 1\r\nEND\r\n', /meta commands/],
    ['one before the present meta commands', 'VERSION 1.6.9\r\nMN\r\nSTAT a 1\r\nEND\r\n', /meta commands/],
    ['one without compare-and-set', 'VERSION 1.6.18\r\nMN\r\nSTAT cas_enabled no\r\nEND\r\n', /`-C`/],
    ['one that has too many connections', 'ERROR Too many open connections\r\nERROR\r\nEND\r\n', /too many/],
  ])('refuses %s', async (_what, greeting, message) => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      const [first = '', rest = ''] = greeting.split(/(?<=^[^\n]*\n)/s)
      socket.once('data', () => {
        socket.write(first)
        socket.once('data', () => socket.write(rest))
      })
      ends.push(() => socket.destroy())
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = new MemcachedClient({ host: '127.0.0.1', port }, { requestMs: 1_000 })
    ends.push(() => {
      client.close()
      server.close()
    })
    await expect(client.greet()).rejects.toThrow(message)
  })
})
