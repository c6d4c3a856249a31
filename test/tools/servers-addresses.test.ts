import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { ownerOfPort, portsOfProcess, startAddressProxies } from 'holdfast-servers'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../support/wait.js'

/** A server that sends whatever the test tells it to, in the pieces that the test chooses. */
async function speaker(): Promise<{ port: number; listeners: () => number; say: (text: string) => void }> {
  const sockets = new Set<Socket>()
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as { port: number }
  return {
    port,
    listeners: () => sockets.size,
    say: (text) => sockets.forEach((socket) => void socket.write(text)),
  }
}

it('leads clients from one relay to the others, however the bytes are cut', async () => {
  const [one, two] = [await speaker(), await speaker()]
  const relays = await startAddressProxies([one, two])
  onTestFinished(async () => void (await Promise.all(relays.map((relay) => relay.dispose()))))
  const [first, second] = relays.map(({ port }) => port)
  const socket = connect(first ?? 0, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  let got = ''
  socket.on('data', (chunk) => {
    got += chunk.toString('latin1')
  })
  await until('it is connected', () => one.listeners() === 1)
  const textWith = (a = 0, b = 0): string =>
    [
      `-MOVED 3999 127.0.0.1:${b}\r\n-ASK 3999 127.0.0.1:${a}\r\n`,
      `*3\r\n:0\r\n:5460\r\n*3\r\n$9\r\n127.0.0.1\r\n:${b}\r\n$40\r\n`,
      `*2\r\n$9\r\n127.0.0.1\r\n$5\r\n${a}\r\n`,
      `$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$5\r\n${b}\r\n`,
      `holdfast 127.0.0.1 ${a} 127.0.0.1 ${b}\r\n`,
      // Numbers that are no addresses stay, and so do addresses of others.
      `$5\r\n${a}\r\n127.0.0.1:${b}1\r\n127.0.0.1:10001@20001\r\n`,
    ].join('')
  const text = textWith(one.port, two.port)
  const expected = textWith(first, second).replace(
    `$5\r\n${first}\r\n127.0.0.1:${second}1`,
    `$5\r\n${one.port}\r\n127.0.0.1:${two.port}1`,
  )
  for (const size of [text.length, 1, 7, 64, 100]) {
    got = ''
    for (let at = 0; at < text.length; at += size) {
      one.say(text.slice(at, at + size))
      // Most pieces come as pieces this way.
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await until('all has come', () => got.length === text.length)
    expect(got).toBe(expected)
  }
})

it('tells which process has a connection', async () => {
  const { port } = await speaker()
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  const local = socket.localPort ?? 0
  expect(portsOfProcess(process.pid).has(local)).toBe(true)
  expect(ownerOfPort(local)).toBe(process.pid)
  expect(portsOfProcess(2 ** 22 + 1).size).toBe(0)
})
