import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { ConsulClient } from '../../src/backends/consul/client.js'
import { parseJson } from '../../src/backends/consul/json.js'
import { ConsulStore } from '../../src/backends/consul/kv.js'
import { BackendUnavailableError, OutcomeUnknownError, UnsupportedError } from '../../src/core/errors.js'
import { fakeServer, httpText } from '../support/fake-http.js'

function clientTo(ports: readonly number[], token: string | null = null): ConsulClient {
  const client = new ConsulClient({
    hosts: ports.map((port) => ({ host: '127.0.0.1', port })),
    tls: null,
    token,
    datacenter: null,
  })
  onTestFinished(() => client.close())
  return client
}

const LOCK = { method: 'PUT', path: '/v1/txn', body: '[]' } as const

async function rejection(call: Promise<unknown>): Promise<unknown> {
  return await call.then(
    () => null,
    (error: unknown) => error,
  )
}

describe('the HTTP client', () => {
  it('uses one connection again and again', async () => {
    let connections = 0
    const { port, server } = await fakeServer((socket) => void socket.write(httpText('[]')))
    server.on('connection', () => void (connections += 1))
    const client = clientTo([port])
    for (let each = 0; each < 5; each += 1) expect((await client.ask(LOCK)).status).toBe(200)
    expect(connections).toBe(1)
  })

  it('sends the token in a header, and the datacenter in the query', async () => {
    const { port, requests } = await fakeServer((socket) => void socket.write(httpText('[]')))
    const client = new ConsulClient({
      hosts: [{ host: '127.0.0.1', port }],
      tls: null,
      token: 'a-secret',
      datacenter: 'dc 2',
    })
    onTestFinished(() => client.close())
    await client.ask({ method: 'GET', path: '/v1/kv/a', query: 'consistent' })
    expect(requests[0]).toContain('X-Consul-Token: a-secret')
    expect(requests[0]).toContain('GET /v1/kv/a?consistent&dc=dc%202 HTTP/1.1')
  })

  it('asks the next agent where one is not reached, and stays with it', async () => {
    const gone = await fakeServer(() => {})
    await new Promise((resolve) => gone.server.close(resolve))
    const { port, requests } = await fakeServer((socket) => void socket.write(httpText('[]')))
    const client = clientTo([gone.port, port])
    await client.ask(LOCK)
    await client.ask(LOCK)
    expect(requests.length).toBe(2)
  })

  it('says that nothing was done where no agent is reached', async () => {
    const gone = await fakeServer(() => {})
    await new Promise((resolve) => gone.server.close(resolve))
    expect(await rejection(clientTo([gone.port]).ask(LOCK))).toBeInstanceOf(BackendUnavailableError)
  })

  it('asks the next agent where one has no leader', async () => {
    const cut = await fakeServer((socket) => void socket.write(httpText('No cluster leader', '500 Error')))
    const { port } = await fakeServer((socket) => void socket.write(httpText('"there"')))
    expect((await clientTo([cut.port, port]).ask(LOCK)).text).toBe('"there"')
    expect(await rejection(clientTo([cut.port]).ask(LOCK))).toBeInstanceOf(BackendUnavailableError)
  })

  it('never sends a request twice that may have been carried out', async () => {
    const first = await fakeServer((socket) => void socket.destroy())
    const second = await fakeServer((socket) => void socket.write(httpText('[]')))
    const client = clientTo([first.port, second.port])
    expect(await rejection(client.ask(LOCK))).toBeInstanceOf(OutcomeUnknownError)
    expect(first.requests.length).toBe(1)
    expect(second.requests.length).toBe(0)
    // The next one goes elsewhere.
    await client.ask(LOCK)
    expect(second.requests.length).toBe(1)
  })

  it('does not take a kept connection that is reset for an answer', async () => {
    const { port, requests } = await fakeServer((socket, _request, count) => {
      if (count === 1) socket.write(httpText('[]'))
      else socket.resetAndDestroy()
    })
    const client = clientTo([port])
    await client.ask(LOCK)
    expect(await rejection(client.ask(LOCK))).toBeInstanceOf(OutcomeUnknownError)
    expect(requests.length).toBe(2)
  })

  it.each([
    ['no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['an answer that is cut off', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{"Key"'],
    [
      'lengths that contradict each other',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[]]',
    ],
  ])('does not know what became of it after %s', async (_what, answer) => {
    const { port } = await fakeServer((socket) => void socket.end(answer))
    expect(await rejection(clientTo([port]).ask(LOCK))).toBeInstanceOf(OutcomeUnknownError)
  })

  it.each([
    ['no JSON', 'locked!'],
    ['something else than an object', '[1,2]'],
    ['results of another kind', '{"Results":[{"KV":{"Key":"a"}}],"Errors":null}'],
  ])('does not know what became of a transaction that is answered by %s', async (_what, body) => {
    const { port } = await fakeServer((socket) => void socket.write(httpText(body)))
    const store = new ConsulStore(clientTo([port]))
    const error = await rejection(store.transact([{ verb: 'get', key: 'a' }]))
    expect(error).toBeInstanceOf(Error)
    expect(error).not.toBeInstanceOf(BackendUnavailableError)
    expect(error).not.toBeInstanceOf(UnsupportedError)
  })

  it('stops reading an answer that never ends', async () => {
    const { port } = await fakeServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      const chunk = `100000\r\n${'x'.repeat(0x10_00_00)}\r\n`
      const pour = (): void => {
        while (!socket.destroyed && socket.write(chunk));
        if (!socket.destroyed) socket.once('drain', pour)
      }
      pour()
    })
    const error = await rejection(clientTo([port]).ask(LOCK))
    expect(error).toBeInstanceOf(OutcomeUnknownError)
    expect(String(error)).toContain('longer than')
  })

  it('gives up on an answer that does not come, and lets go of its connection', async () => {
    const { port, sockets } = await fakeServer(() => {})
    expect(await rejection(clientTo([port]).ask(LOCK))).toBeInstanceOf(OutcomeUnknownError)
    await until('the connection is closed', () => sockets.size === 0)
  })

  it('gives up on an answer of which only the beginning comes', async () => {
    const { port } = await fakeServer(
      (socket) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n['),
    )
    expect(await rejection(clientTo([port]).ask(LOCK))).toBeInstanceOf(OutcomeUnknownError)
  })

  it.each([
    [403, 'Permission denied', UnsupportedError],
    [403, 'rpc error making call: ACL not found', UnsupportedError],
    [429, 'Too many', BackendUnavailableError],
    [500, 'leadership lost while committing log', OutcomeUnknownError],
    [500, 'rpc error making call: EOF', OutcomeUnknownError],
    [500, "Invalid Session TTL '1000000000', must be between [10s=24h0m0s]", UnsupportedError],
  ])('knows what %i %s means', async (status, said, kind) => {
    const { port } = await fakeServer((socket) => void socket.write(httpText(said, `${status} Error`)))
    expect(await rejection(clientTo([port], 'a-secret').ask(LOCK))).toBeInstanceOf(kind)
  })

  it('gives what it does not understand to the caller, escaped and without the token', async () => {
    const { port } = await fakeServer(
      (socket) => void socket.write(httpText('\u001b[31m odd \u202e', '500 Error')),
    )
    const error = await rejection(clientTo([port], 'a-secret').ask(LOCK))
    expect(error).toBeInstanceOf(Error)
    expect(String(error)).toContain('\\u001b[31m odd \\u202e')
    expect(String(error)).not.toContain('a-secret')
  })
})

describe('numbers of 64 bits', () => {
  it('come through as they are', () => {
    const text =
      '[{"Key":"16210313421097356768 \\" 16210313421097356768","Flags":16210313421097356768,"Index":7}]'
    expect(parseJson(text)).toEqual([
      { Key: '16210313421097356768 " 16210313421097356768', Flags: '16210313421097356768', Index: 7 },
    ])
  })

  it('go out as they are', async () => {
    const { port, requests } = await fakeServer(
      (socket) => void socket.write(httpText('{"Results":[],"Errors":null}')),
    )
    const store = new ConsulStore(clientTo([port]))
    await store.transact([
      { verb: 'cas', key: 'a"b', index: 18_446_744_073_709_551_615n, flags: 0xe0f69a2baa414de0n, value: 'ä' },
    ])
    expect(requests.join('')).toContain(
      '[{"KV":{"Verb":"cas","Key":"a\\"b","Index":18446744073709551615,"Flags":16210313421097356768,"Value":"w6Q="}}]',
    )
  })
})
