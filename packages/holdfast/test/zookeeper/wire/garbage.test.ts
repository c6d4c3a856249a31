import type { Socket } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { until } from '../../../../../test/support/wait.js'
import { FrameReader } from '../../../src/backends/zookeeper/wire/frames.js'
import { JuteReader, JuteWriter } from '../../../src/backends/zookeeper/wire/jute.js'
import { readMulti } from '../../../src/backends/zookeeper/wire/multi.js'
import { readAcl, readEvent, readStat, readWelcome } from '../../../src/backends/zookeeper/wire/records.js'
import {
  type ZooKeeper,
  ZooKeeperError,
  type ZooKeeperOptions,
} from '../../../src/backends/zookeeper/wire/zookeeper.js'
import { answering, type GarbagePeer, garbagePeer, requestsIn, welcomeFrame } from './garbage-peer.js'
import { codeOfFailure, connected, NOTHING, remembering } from './support.js'

const SESSION_MS = 3_000

function open(peer: GarbagePeer, options: Partial<ZooKeeperOptions> = {}): Promise<ZooKeeper> {
  return connected({ hosts: [peer], sessionMs: SESSION_MS, ...options })
}

/** A peer that gives a session and answers the first request behind it as told. */
function answeringPeer(answer: (socket: Socket, xid: number) => void): Promise<GarbagePeer> {
  return garbagePeer((socket, chunk, index) => {
    if (index === 0) return void socket.write(welcomeFrame(SESSION_MS))
    const [request] = requestsIn(chunk)
    if (request !== undefined) answer(socket, request.xid)
  })
}

function stat(writer: JuteWriter): JuteWriter {
  writer.long(1n).long(1n).long(0n).long(0n).int(0).int(0).int(0).long(0n)
  return writer.int(0).int(0).long(1n)
}

function head(length: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(length)
  return bytes
}

describe('what is no answer of ZooKeeper', () => {
  const wrong: ReadonlyArray<readonly [string, (xid: number) => Buffer]> = [
    ['another number than the one that is due', (xid) => stat(answering(xid + 1).int(0)).frame()],
    ['an answer to a ping that was not sent', () => answering(-2).frame()],
    ['an answer to credentials that were not sent', () => answering(-4).frame()],
    ['a frame with a negative length', () => head(-5)],
    ['a frame over the limit', () => head(2_000_000_000)],
    ['a frame that is too short', () => Buffer.concat([head(3), Buffer.alloc(3)])],
    ['an empty frame', () => head(0)],
    ['a record that is cut off', (xid) => answering(xid).long(3n).frame()],
    ['a list of two thousand million', (xid) => answering(xid).int(2_000_000_000).frame()],
    ['a list of a negative length', (xid) => stat(answering(xid).int(-7)).frame()],
    ['a text of a negative length', (xid) => answering(xid).int(1).int(-9).frame()],
    ['a text that is longer than its frame', (xid) => answering(xid).int(1).int(1_000).frame()],
    ['an event that is cut off', () => answering(-1).int(1).frame()],
  ]

  it.each(wrong)('%s ends the connection and is told', async (_what, frame) => {
    const peer = await answeringPeer((socket, xid) => void socket.write(frame(xid)))
    const client = await open(peer)
    expect(await codeOfFailure(client.children('/'))).toEqual({ code: 'PROTOCOL', wasSent: true })
    await until('it asks again', () => peer.accepted > 1)
  })

  it('an error that nobody knows is told as one', async () => {
    const peer = await answeringPeer((socket, xid) => void socket.write(answering(xid, -4_711).frame()))
    const client = await open(peer)
    await expect(client.exists('/')).rejects.toMatchObject({ code: 'UNKNOWN_ERROR', wasSent: true })
    expect(client.state).toBe('connected')
  })

  it('an answer in single bytes is an answer', async () => {
    const peer = await answeringPeer((socket, xid) => {
      for (const byte of stat(answering(xid)).frame()) socket.write(Buffer.of(byte))
    })
    const client = await open(peer)
    expect((await client.exists('/'))?.czxid).toBe(1n)
  })

  it('a server that sends events and answers nothing is given up', async () => {
    const peer = await answeringPeer((socket) => {
      const event = answering(-1, 0, -1n).int(3).int(3).text('/x').frame()
      const timer = setInterval(() => socket.write(event), 20)
      socket.on('close', () => clearInterval(timer))
    })
    const client = await open(peer)
    expect(await codeOfFailure(client.exists('/'))).toEqual({ code: 'CONNECTION_LOSS', wasSent: true })
  })

  it('a server that welcomes everybody and hangs up at once is not asked all the time', async () => {
    const peer = await garbagePeer((socket) => void socket.end(welcomeFrame(SESSION_MS)))
    const client = await open(peer)
    const started = performance.now()
    await until('it was asked several times', () => peer.accepted > 8)
    expect(performance.now() - started).toBeGreaterThan(100)
    expect(['connected', 'suspended']).toContain(client.state)
  })

  it('a session that was not asked for is refused, and an expired one is final', async () => {
    let count = 0
    const peer = await garbagePeer((socket) => {
      count += 1
      if (count === 1) socket.end(welcomeFrame(SESSION_MS))
      else socket.write(count < 4 ? welcomeFrame(SESSION_MS, 8n) : welcomeFrame(0, 0n))
    })
    const client = await open(peer)
    const { listener, seen } = remembering()
    client.exists('/', listener).catch(() => undefined)
    await until('it is over', () => client.state === 'expired')
    expect(count).toBe(4)
    expect(seen).toEqual([])
    expect(client.sessionId).toBe(7n)
  })

  it('servers that know neither containers nor stats are asked the old way', async () => {
    const opcodes: number[] = []
    const peer = await garbagePeer((socket, chunk, index) => {
      if (index === 0) return void socket.write(welcomeFrame(SESSION_MS))
      for (const { xid, opcode } of requestsIn(chunk)) {
        opcodes.push(opcode)
        if (opcode === 1) socket.write(answering(xid).text('/made').frame())
        else if (opcode === 3) socket.write(stat(answering(xid)).frame())
        else socket.write(answering(xid, -6).frame())
      }
    })
    const client = await open(peer, { sessionMs: 10_000 })
    expect(await client.create('/made', NOTHING, { mode: 'container' })).toMatchObject({
      path: '/made',
      stat: { czxid: 1n },
    })
    expect(opcodes).toEqual([19, 1, 3])
  })
})

describe('random bytes', () => {
  it('in the place of a welcome reject in time', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        const peer = await garbagePeer((socket) => void socket.end(bytes))
        const { code } = await codeOfFailure(open(peer, { sessionMs: 60 }))
        expect(['PROTOCOL', 'CONNECTION_LOSS', 'SESSION_EXPIRED']).toContain(code)
      }),
      { numRuns: 40 },
    )
  })

  const request = fc.constantFrom('exists', 'getData', 'children', 'create', 'multi', 'getAcl', 'sync')

  async function ask(client: ZooKeeper, what: string): Promise<unknown> {
    switch (what) {
      case 'exists':
        return client.exists('/a')
      case 'getData':
        return client.getData('/a')
      case 'children':
        return client.children('/a')
      case 'create':
        return client.create('/a', NOTHING)
      case 'multi':
        return client.multi([{ type: 'check', path: '/a' }])
      case 'getAcl':
        return client.getAcl('/a')
      default:
        return client.sync('/a')
    }
  }

  /** Settles one way or the other, and with nothing but a ZooKeeperError. */
  async function settles(client: ZooKeeper, what: string): Promise<void> {
    try {
      await ask(client, what)
    } catch (error) {
      expect(error).toBeInstanceOf(ZooKeeperError)
    }
  }

  it('in the place of an answer settle every request, and the client goes on', async () => {
    await fc.assert(
      fc.asyncProperty(
        request,
        fc.uint8Array({ maxLength: 300 }),
        fc.boolean(),
        async (what, bytes, framed) => {
          const peer = await answeringPeer((socket) => {
            socket.write(framed ? Buffer.concat([head(bytes.length), bytes]) : bytes)
          })
          const client = await open(peer, { requestMs: 100 })
          await settles(client, what)
          client.abandon()
        },
      ),
      { numRuns: 150 },
    )
  })

  it('behind a true header settle every request', async () => {
    await fc.assert(
      fc.asyncProperty(request, fc.uint8Array({ maxLength: 300 }), async (what, bytes) => {
        const peer = await answeringPeer((socket, xid) => {
          const start = answering(xid).frame()
          start.writeInt32BE(16 + bytes.length)
          socket.write(Buffer.concat([start, bytes]))
        })
        const client = await open(peer, { requestMs: 100 })
        await settles(client, what)
        client.abandon()
      }),
      { numRuns: 150 },
    )
  })

  it('changed and cut off in a true answer settle every request', async () => {
    const change = fc.record({ at: fc.nat(120), byte: fc.nat(255), length: fc.nat(120) })
    await fc.assert(
      fc.asyncProperty(request, change, async (what, { at, byte, length }) => {
        const peer = await answeringPeer((socket, xid) => {
          const frame = stat(answering(xid).int(2).text('one').text('two')).frame()
          if (at < frame.length) frame.writeUInt8(byte, at)
          socket.end(frame.subarray(0, length))
        })
        const client = await open(peer, { requestMs: 100 })
        await settles(client, what)
        client.abandon()
      }),
      { numRuns: 150 },
    )
  })
})

describe('the readers', () => {
  it('give records or a PROTOCOL error for any bytes', () => {
    const readers: ReadonlyArray<(reader: JuteReader) => unknown> = [
      readStat,
      readAcl,
      readEvent,
      readWelcome,
      (reader) => readMulti(reader, 3),
      (reader) => reader.vector(4, () => reader.text()),
      (reader) => reader.buffer(),
    ]
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(readers.length - 1), (bytes, which) => {
        try {
          readers[which]?.(new JuteReader(Buffer.from(bytes)))
        } catch (error) {
          expect(error).toMatchObject({ name: 'ZooKeeperError', code: 'PROTOCOL' })
        }
      }),
      { numRuns: 5_000 },
    )
  })

  it('give back what was written', () => {
    const anything = fc.record({
      int: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
      long: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      bool: fc.boolean(),
      text: fc.string({ unit: 'binary' }),
      bytes: fc.uint8Array({ maxLength: 1_000 }),
      list: fc.array(fc.string()),
    })
    fc.assert(
      fc.property(anything, ({ int, long, bool, text, bytes, list }) => {
        const writer = new JuteWriter().int(int).long(long).bool(bool).text(text).buffer(Buffer.from(bytes))
        const frame = writer.vector(list, (item) => writer.text(item)).frame()
        expect(frame.readInt32BE(0)).toBe(frame.length - 4)
        const reader = new JuteReader(frame.subarray(4))
        expect([reader.int(), reader.long(), reader.bool(), reader.text()]).toEqual([int, long, bool, text])
        expect(reader.buffer().equals(bytes)).toBe(true)
        expect(reader.vector(4, () => reader.text())).toEqual(list)
        expect(reader.left).toBe(0)
      }),
    )
  })

  it('find the frames however the bytes are cut', () => {
    const bodies = fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 20 })
    fc.assert(
      fc.property(bodies, fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }), (frames, cuts) => {
        const all = Buffer.concat(frames.flatMap((frame) => [head(frame.length), frame]))
        const reader = new FrameReader(50)
        const found: Buffer[] = []
        for (let at = 0, turn = 0; at < all.length; turn += 1) {
          const length = cuts[turn % cuts.length] ?? 1
          for (const frame of reader.read(all.subarray(at, at + length))) found.push(Buffer.from(frame))
          at += length
        }
        expect(found).toEqual(frames.map((frame) => Buffer.from(frame)))
      }),
    )
  })
})
