// @module-tag secrets
// @module-tag limits
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import {
  type Answer,
  DEADLINE_MS,
  makeTokens,
  pathOf,
  type RunningService,
  startService,
} from './running-service.js'

/** T12: there is an end to everything that can be kept open, and what leaves takes everything with it. */

const services: RunningService[] = []
async function start(...options: Parameters<typeof startService>): Promise<RunningService> {
  const service = await startService(...options)
  services.push(service)
  return service
}
afterEach(async () => {
  for (const service of services.splice(0)) await service.close()
})

interface Standing {
  readonly opened: number
  readonly failed: number
  readonly answers: Readonly<Record<string, number>>
}

class Crowd {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>

  constructor(port: number, count: number, names: number) {
    const script = join(import.meta.dirname, 'crowd-client.mjs')
    this.#child = spawn(process.execPath, [script, String(port), String(count), String(names)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    if (this.#child.stdout === null) throw new Error('The client has no output.')
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  async tell(word: 'look' | 'leave'): Promise<Standing> {
    this.#child.stdin?.write(`${word}\n`)
    const line = await this.#lines.next()
    return JSON.parse(String(line.value)) as Standing
  }

  end(): void {
    this.#child.kill('SIGKILL')
  }
}

/** On a machine that is busy with other things, so many connections take a while. */
const CROWD_DEADLINE_MS = 240_000

/** How many files a process may have open, and so how many connections. */
function filesMax(): number {
  const text = execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).trim()
  return text === 'unlimited' ? Number.POSITIVE_INFINITY : Number(text)
}

async function waitersOf(service: RunningService, names: number): Promise<number> {
  const { json } = await service.get(`/v1/locks?prefix=crowd%2F&limit=${Math.max(names, 1)}`)
  return (json['locks'] as { waiters: unknown[] }[]).reduce((sum, { waiters }) => sum + waiters.length, 0)
}

describe('many open waiters', () => {
  // `HOLDFAST_CROWD=10000` takes a quiet machine. Where a process may not have as many files, as many as it may have.
  const count = Math.min(Number(process.env['HOLDFAST_CROWD'] ?? 2_000), filesMax() - 500)
  const names = 100
  const allowed = Math.floor(count * 0.8)
  /** So many at once can keep a busy machine from reading what they send: that is not what they are cut off for here. */
  const patient = { headersTimeoutMs: 300_000, requestTimeoutMs: 300_000 }

  test(
    `${count} come, ${allowed} wait, the rest is told at once to come later, and all leave without a trace`,
    async () => {
      // The cheapest store there is: how many it can serve is measured elsewhere, and here it is the door that counts.
      const limits = { waitersMax: allowed, waitersPerNameMax: count, waitMaxMs: 600_000, ...patient }
      const service = await start({ url: 'memory:', limits })
      const holds = await Promise.all(
        Array.from({ length: names }, (_, index) =>
          service.post(pathOf(`crowd/${index}`, 'acquire'), { ttlMs: 600_000 }),
        ),
      )
      expect(holds.filter(({ status }) => status === 200)).toHaveLength(names)
      const crowd = new Crowd(service.port, count, names)
      try {
        const refused = count - allowed
        const patience = { limitMs: CROWD_DEADLINE_MS, everyMs: 50, state: () => crowd.tell('look') }
        const isRefused = async (): Promise<boolean> => (await crowd.tell('look')).answers['429'] === refused
        await until('the rest is refused', isRefused, patience)
        const waiters = (): Promise<number> => waitersOf(service, names)
        await until('all others wait at the store', async () => (await waiters()) === allowed, patience)
        expect(await crowd.tell('look')).toEqual({ opened: count, failed: 0, answers: { 429: refused } })
        // The service still answers everybody else.
        expect((await service.post(pathOf('beside', 'acquire'))).status).toBe(200)
        expect((await service.get('/healthz')).status).toBe(200)
        await crowd.tell('leave')
        await until('nobody waits any more', async () => (await waiters()) === 0, patience)
      } finally {
        crowd.end()
      }
      // Their places are free again.
      const again = service.post(pathOf('crowd/0', 'acquire'), { waitMs: 100 })
      expect((await again).status).toBe(423)
    },
    4 * CROWD_DEADLINE_MS,
  )
})

describe('bounds', () => {
  test('on waiters hold for a name and for a token, and whoever leaves makes room', async () => {
    const { auth, token } = makeTokens({
      one: [{ prefix: '', can: ['acquire', 'inspect'] }],
      two: [{ prefix: '', can: ['acquire', 'inspect'] }],
    })
    const service = await start({ auth, limits: { waitersPerNameMax: 2, waitersPerPrincipalMax: 3 } })
    const one = { token: token.one }
    for (const name of ['a', 'b']) await service.post(pathOf(name, 'acquire'), { ttlMs: 600_000 }, one)
    const leave = new AbortController()
    const wait = (name: string, asking: object): Promise<number> =>
      service.post(pathOf(name, 'acquire'), { waitMs: 30_000 }, { ...asking, signal: leave.signal }).then(
        ({ status }) => status,
        () => 0,
      )
    const waiting = [wait('a', one), wait('a', one), wait('b', one)]
    const waiters = async (name: string): Promise<unknown> =>
      (await service.get(pathOf(name), one)).json['waiters']
    await until('two wait', async () => ((await waiters('a')) as unknown[]).length === 2)
    await until('one waits', async () => ((await waiters('b')) as unknown[]).length === 1)
    const refused = await service.post(pathOf('a', 'acquire'), { waitMs: 1_000 }, { token: token.two })
    expect([refused.status, refused.json['code']]).toEqual([429, 'TOO_MANY'])
    expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect((await service.post(pathOf('b', 'acquire'), { waitMs: 1_000 }, one)).status).toBe(429)
    // Whoever does not wait takes nobody's place.
    expect((await service.post(pathOf('a', 'acquire'), {}, one)).status).toBe(423)
    leave.abort()
    expect(await Promise.all(waiting)).toEqual([0, 0, 0])
    await until('all have left', async () => ((await waiters('a')) as unknown[]).length === 0)
    await until('there is room again', async () => {
      const { status } = await service.post(pathOf('a', 'acquire'), { waitMs: 1 }, { token: token.two })
      return status === 423
    })
  })

  test('on waiters hold also for places that are kept while nobody waits on them', async () => {
    const service = await start({ limits: { waitersPerNameMax: 2 } })
    await service.post(pathOf('kept', 'acquire'), { ttlMs: 600_000 })
    const stay = (id: string): Promise<Answer> =>
      service.post(pathOf('kept', 'acquire'), { stayMs: 60_000, ttlMs: 60_000, id: id.repeat(22) })
    const first = await stay('A')
    expect(first.status).toBe(423)
    // The same claim again takes no second place.
    for (const id of ['A', 'B', 'B']) expect((await stay(id)).status).toBe(423)
    expect((await stay('C')).status).toBe(429)
    const { claim } = first.json['place'] as { claim: string }
    expect((await service.post(pathOf('kept', 'release'), { claim })).json).toMatchObject({
      outcome: 'released',
    })
    expect((await stay('C')).status).toBe(423)
  })

  test('on waiters hold also for a kept place whose claim asks for something that is refused', async () => {
    const service = await start({ limits: { waitersPerNameMax: 2 } })
    const ask = (id: string, body: object): Promise<Answer> =>
      service.post(pathOf('kept', 'acquire'), { ttlMs: 60_000, id: id.repeat(22), ...body })
    const read = { mode: 'read', stayMs: 60_000 }
    expect((await ask('H', { mode: 'write', ttlMs: 600_000 })).status).toBe(200)
    for (const id of ['A', 'B']) {
      expect((await ask(id, read)).status).toBe(423)
      expect((await ask(id, { mode: 'write', stayMs: 1 })).json).toMatchObject({ code: 'WEIGHT_CONFLICT' })
      expect((await ask(id, { mode: 'mutex', stayMs: 1 })).json).toMatchObject({ code: 'SHAPE_CONFLICT' })
    }
    expect((await service.get(pathOf('kept'))).json).toMatchObject({ waitersTotal: 2 })
    expect((await ask('C', read)).json).toMatchObject({ code: 'TOO_MANY' })
  })

  test('on leases hold for kept places as well, because a place may be admitted while its client is away', async () => {
    const service = await start({ limits: { ttlMaxMs: 5_000 } })
    const stay = (name: string, stayMs: number): Promise<Answer> =>
      service.post(pathOf(name, 'acquire'), { ttlMs: 5_000, stayMs, id: name.repeat(22) })
    const refused = await stay('A', 5_001)
    expect([refused.status, refused.json['code']]).toEqual([400, 'INVALID_INPUT'])
    expect(refused.json['detail']).toContain('stayMs')
    expect((await stay('A', 5_000)).status).toBe(200)
  })

  test('on listeners hold, and one that leaves makes room', async () => {
    const service = await start({ limits: { listenersMax: 3 } })
    const listen = async (): Promise<Socket> => {
      const socket = connect(service.port, '127.0.0.1')
      socket.on('error', () => undefined)
      socket.write('GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n')
      await new Promise((resolve) => socket.once('data', resolve))
      return socket
    }
    const listeners = await Promise.all([listen(), listen(), listen()])
    const refused = await service.get('/v1/events')
    expect([refused.status, refused.json['code']]).toEqual([429, 'TOO_MANY'])
    listeners[0]?.destroy()
    await until(
      'there is room',
      async () => (await service.get('/v1/events', { headOnly: true })).status === 200,
    )
    for (const socket of listeners) socket.destroy()
  })

  test('on rates hold for each token on its own, and for whoever has none', async () => {
    const { auth, token } = makeTokens({
      busy: [{ prefix: '', can: ['inspect'] }],
      calm: [{ prefix: '', can: ['inspect'] }],
    })
    const service = await start({ auth, limits: { requestsPerSecond: 5 } })
    const ask = async (name: keyof typeof token): Promise<number> =>
      (await service.get(pathOf('x'), { token: token[name] })).status
    const busy = await Promise.all(Array.from({ length: 60 }, () => ask('busy')))
    expect(busy.filter((status) => status === 200).length).toBeGreaterThan(0)
    expect(busy.filter((status) => status === 429).length).toBeGreaterThan(0)
    expect(await ask('calm')).toBe(200)
    const unknown = await Promise.all(Array.from({ length: 60 }, () => service.get(pathOf('x'))))
    expect(new Set(unknown.map(({ status }) => status))).toEqual(new Set([401, 429]))
    expect(await ask('calm')).toBe(200)
    await until('it may ask again', async () => (await ask('busy')) === 200)
  })

  test('on connections hold', async () => {
    const service = await start({ limits: { connectionsMax: 5 } })
    const sockets = Array.from({ length: 20 }, () => connect(service.port, '127.0.0.1'))
    let closed = 0
    for (const socket of sockets) {
      socket.on('error', () => undefined)
      socket.once('close', () => {
        closed += 1
      })
    }
    await until('those beyond are cut off', () => closed >= 15)
    for (const socket of sockets) socket.destroy()
    await until('it serves again', async () => {
      const answer = await service.get('/healthz').catch(() => null)
      return answer?.status === 200
    })
  })
})

describe('those who send slowly (slowloris)', () => {
  test('are cut off, while a long poll lasts and others are served', async () => {
    const service = await start({ limits: { headersTimeoutMs: 2_000, requestTimeoutMs: 4_000 } })
    await service.post(pathOf('slow', 'acquire'), { ttlMs: 600_000 })
    // Longer than a request may take to arrive: waiting for the answer does not count.
    const poll = service.post(pathOf('slow', 'acquire'), { waitMs: 10_000 })
    const head =
      'POST /v1/locks/slow/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
    const starts = [
      '',
      'G',
      'GET / HTTP/1.1\r\nX-Slow: ',
      `${head}Content-Length: 100\r\n\r\n{`,
      `${head}Transfer-Encoding: chunked\r\n\r\n`,
    ]
    const slow = starts.flatMap((start) => Array.from({ length: 5 }, () => dawdle(service.port, start)))
    const ends = await Promise.all(slow)
    for (const text of ends) if (text !== '') expect(text).toMatch(/^HTTP\/1\.1 (408|400) /)
    expect((await service.get('/healthz')).status).toBe(200)
    expect((await poll).status).toBe(423)
    const { json } = await service.get(pathOf('slow'))
    expect(json).toMatchObject({ holders: [{}], waiters: [] })
  })
})

/** Sends a byte now and then, and returns what was said when the other side lost patience. */
function dawdle(port: number, start: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(port, '127.0.0.1')
    if (start !== '') socket.write(start)
    const timer = setInterval(() => (start === '' ? undefined : socket.write('x')), 100)
    const giveUp = setTimeout(() => {
      socket.destroy()
      reject(new Error(`It was let dawdle: ${start.slice(0, 20)}`))
    }, DEADLINE_MS)
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
    })
    socket.on('error', () => undefined)
    socket.once('close', () => {
      clearInterval(timer)
      clearTimeout(giveUp)
      resolve(text)
    })
  })
}
