import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProxy, type TcpProxy } from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../support/wait.js'

/** A server that answers every request with itself and remembers all of them, behind a proxy. */
async function echoBehindProxy(): Promise<{ proxy: TcpProxy; received: () => string }> {
  let text = ''
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      text += chunk.toString()
      socket.write(chunk)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The server has no port.')
  const proxy = await startProxy(address.port)
  onTestFinished(async () => {
    await proxy.dispose()
    await proxy.dispose()
    server.close()
  })
  return { proxy, received: () => text }
}

/** A client that collects what it gets. */
async function client(
  proxy: TcpProxy,
): Promise<{ socket: Socket; got: () => string; closed: () => boolean }> {
  const socket = connect(proxy.port, '127.0.0.1')
  let text = ''
  socket.on('error', () => undefined)
  socket.on('data', (chunk) => {
    text += chunk.toString()
  })
  await once(socket, 'connect')
  return { socket, got: () => text, closed: () => socket.closed }
}

/** Long enough for what must not come to come. */
const aMoment = () => sleep(50)

describe('startProxy', () => {
  it('passes bytes on both ways, and the end of a connection', async () => {
    const { proxy } = await echoBehindProxy()
    const { socket, got, closed } = await client(proxy)
    socket.write('hello')
    await until(`got() === 'hello'`, () => got() === 'hello')
    expect(proxy.connections).toBe(1)
    socket.end()
    await until(`closed() && proxy.connections === 0`, () => closed() && proxy.connections === 0)
    expect(proxy.accepted).toBe(1)
  })

  it('cuts all connections', async () => {
    const { proxy } = await echoBehindProxy()
    const clients = [await client(proxy), await client(proxy)]
    await until(`proxy.connections === 2`, () => proxy.connections === 2)
    expect(proxy.cut()).toBe(2)
    await until(`clients.every(({ closed }) => closed())`, () => clients.every(({ closed }) => closed()))
    expect(proxy.connections).toBe(0)
    await client(proxy)
  })

  it('ends the server side of a connection without a word to the client, and lets new ones through', async () => {
    const { proxy, received } = await echoBehindProxy()
    const [silent, other] = [await client(proxy), await client(proxy)]
    silent.socket.write('a')
    await until('it is answered', () => silent.got() === 'a')
    expect(proxy.halfOpen(({ clientPort }) => clientPort === silent.socket.localPort)).toBe(1)
    silent.socket.write('b')
    other.socket.write('c')
    const next = await client(proxy)
    next.socket.write('d')
    await until('the others are answered', () => other.got() === 'c' && next.got() === 'd')
    await aMoment()
    expect([silent.got(), silent.closed(), received()]).toEqual(['a', false, 'acd'])
    expect(proxy.clients).toBe(3)
    silent.socket.end()
    await until('it is known that the client has left', () => proxy.clients === 2)
    expect(proxy.cut(({ isHalfOpen }) => isHalfOpen)).toBe(1)
    await until('it is closed', () => silent.closed())
    expect([other.closed(), next.closed()]).toEqual([false, false])
  })

  it('tells the server that a half-open connection is gone', async () => {
    const ended: string[] = []
    const server = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', () => undefined)
      socket.on('close', () => ended.push('closed'))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const proxy = await startProxy((server.address() as { port: number }).port)
    onTestFinished(async () => {
      await proxy.dispose()
      server.close()
    })
    const { closed } = await client(proxy)
    await until('it is relayed', () => proxy.connections === 1)
    await until('the server has it', () => proxy.halfOpen() === 1 || ended.length > 0)
    await until('the server sees its end', () => ended.length === 1)
    expect(closed()).toBe(false)
  })

  it('leads new connections to another server', async () => {
    const [one, two] = [await echoBehindProxy(), await echoBehindProxy()]
    const before = await client(one.proxy)
    before.socket.write('a')
    await until('it is answered', () => before.got() === 'a')
    one.proxy.redirect(two.proxy.port)
    before.socket.write('b')
    const after = await client(one.proxy)
    after.socket.write('c')
    await until('both are answered', () => before.got() === 'ab' && after.got() === 'c')
    expect([one.received(), two.received()]).toEqual(['ab', 'c'])
  })

  it('cuts only the connections that a filter chooses', async () => {
    const { proxy } = await echoBehindProxy()
    const [first, second, third] = [await client(proxy), await client(proxy), await client(proxy)]
    // The word may come in pieces, and leaving a channel is something else.
    first.socket.write('*2\r\n$11\r\nUNSUBSCRIBE\r\n$1\r\na\r\n')
    second.socket.write('*2\r\n$9\r\nsub')
    await until(`second.got().endsWith('sub')`, () => second.got().endsWith('sub'))
    second.socket.write('scribe\r\n$1\r\na\r\n')
    await until(
      `second.got().endsWith('a\r\n') && first.got().endsWith('a\r\n')`,
      () => second.got().endsWith('a\r\n') && first.got().endsWith('a\r\n'),
    )
    expect(proxy.cut(({ sawSubscribe }) => sawSubscribe)).toBe(1)
    await until(`second.closed()`, () => second.closed())
    expect(proxy.cut(({ index }) => index === 2)).toBe(1)
    await until(`third.closed()`, () => third.closed())
    expect(first.closed()).toBe(false)
  })

  it('refuses new connections and leaves the present ones', async () => {
    const { proxy } = await echoBehindProxy()
    const present = await client(proxy)
    present.socket.write('a')
    await until(`present.got() === 'a'`, () => present.got() === 'a')
    proxy.refuse(true)
    const refused = await client(proxy)
    await until(`refused.closed()`, () => refused.closed())
    present.socket.write('b')
    await until(`present.got() === 'ab'`, () => present.got() === 'ab')
    proxy.refuse(false)
    const allowed = await client(proxy)
    allowed.socket.write('c')
    await until(`allowed.got() === 'c'`, () => allowed.got() === 'c')
  })

  it('holds bytes back both ways, and lets them go in order', async () => {
    const { proxy, received } = await echoBehindProxy()
    const { socket, got } = await client(proxy)
    proxy.hold(true)
    const seen = proxy.waitForBytes('request', 'two')
    socket.write('one')
    await sleep(5)
    socket.write('two')
    await seen
    await aMoment()
    expect(received()).toBe('')
    proxy.hold(false)
    await until(`got() === 'onetwo'`, () => got() === 'onetwo')
    expect(received()).toBe('onetwo')
  })

  it('delivers a request that was held back although its client has given up', async () => {
    const { proxy, received } = await echoBehindProxy()
    const { socket } = await client(proxy)
    proxy.hold(true)
    const seen = proxy.waitForBytes('request')
    socket.write('late')
    await seen
    expect(proxy.clients).toBe(1)
    socket.destroy()
    await until('the client is gone', () => proxy.clients === 0)
    await aMoment()
    expect(received()).toBe('')
    expect([proxy.connections, proxy.clients]).toEqual([1, 0])
    proxy.hold(false)
    await until(
      `received() === 'late' && proxy.connections === 0`,
      () => received() === 'late' && proxy.connections === 0,
    )
  })

  it('holds back only replies', async () => {
    const { proxy, received } = await echoBehindProxy()
    const { socket, got } = await client(proxy)
    proxy.holdReplies(true)
    const seen = proxy.waitForBytes('reply')
    socket.write('one')
    await seen
    await aMoment()
    expect(received()).toBe('one')
    expect(got()).toBe('')
    proxy.holdReplies(false)
    await until(`got() === 'one'`, () => got() === 'one')
  })

  it('throws replies away', async () => {
    const { proxy, received } = await echoBehindProxy()
    const { socket, got } = await client(proxy)
    proxy.dropReplies(true)
    const seen = proxy.waitForBytes('reply')
    socket.write('lost')
    await seen
    proxy.dropReplies(false)
    socket.write('found')
    await until(`got() === 'found'`, () => got() === 'found')
    expect(received()).toBe('lostfound')
  })

  it('throws requests away, and leaves the connection', async () => {
    const { proxy, received } = await echoBehindProxy()
    const { socket, got, closed } = await client(proxy)
    proxy.dropRequests(true)
    const seen = proxy.waitForBytes('request')
    socket.write('lost')
    await seen
    await aMoment()
    expect(closed()).toBe(false)
    proxy.dropRequests(false)
    socket.write('found')
    await until(`got() === 'found'`, () => got() === 'found')
    expect(received()).toBe('found')
  })

  it('sends what clients sent once more, and keeps the replies to itself', async () => {
    const { proxy, received } = await echoBehindProxy()
    const before = await client(proxy)
    before.socket.write('before')
    await until(`before.got() === 'before'`, () => before.got() === 'before')
    proxy.record(true)
    const [gone, present] = [await client(proxy), await client(proxy)]
    gone.socket.write('one')
    await until(`gone.got() === 'one'`, () => gone.got() === 'one')
    gone.socket.end()
    present.socket.write('two')
    await until(`present.got() === 'two'`, () => present.got() === 'two')
    expect(await proxy.replay()).toBe(2)
    const again = received().slice('beforeonetwo'.length)
    expect(['onetwo', 'twoone']).toContain(again)
    expect([before.got(), gone.got(), present.got()]).toEqual(['before', 'one', 'two'])
    proxy.record(false)
    expect(await proxy.replay()).toBe(0)
  })

  it('does not play a connection again that has sent too much to be kept', async () => {
    const { proxy, received } = await echoBehindProxy()
    proxy.record(true)
    const { socket, got } = await client(proxy)
    const much = 'x'.repeat(300_000)
    socket.write(much)
    await until(`got().length === much.length`, () => got().length === much.length)
    expect(await proxy.replay()).toBe(0)
    expect(received().length).toBe(much.length)
  })

  it('does not keep what was thrown away', async () => {
    const { proxy, received } = await echoBehindProxy()
    proxy.record(true)
    const { socket, got } = await client(proxy)
    proxy.dropRequests(true)
    const seen = proxy.waitForBytes('request')
    socket.write('lost')
    await seen
    proxy.dropRequests(false)
    socket.write('found')
    await until(`got() === 'found'`, () => got() === 'found')
    expect(await proxy.replay()).toBe(1)
    expect(received()).toBe('foundfound')
  })

  it('delays bytes and keeps their order when the delay changes', async () => {
    const { proxy } = await echoBehindProxy()
    const { socket, got } = await client(proxy)
    proxy.delay(100)
    const start = performance.now()
    const seen = proxy.waitForBytes('request')
    socket.write('slow')
    await seen
    proxy.delay(0)
    socket.write('fast')
    await until(`got() === 'slowfast'`, () => got() === 'slowfast')
    // The request alone was delayed: its reply came when there was no delay any more.
    expect(performance.now() - start).toBeGreaterThanOrEqual(99)
  })

  it('closes a connection when there is no server', async () => {
    const proxy = await startProxy(1)
    onTestFinished(() => proxy.dispose())
    const { closed } = await client(proxy)
    await until('the connection is closed', closed)
    await until(`proxy.connections === 0`, () => proxy.connections === 0)
  })

  it('says what it waited for in vain', async () => {
    const { proxy } = await echoBehindProxy()
    await expect(proxy.waitForBytes('reply', 'never', { timeoutMs: 20 })).rejects.toThrow(
      "reply with 'never'",
    )
  })
})
