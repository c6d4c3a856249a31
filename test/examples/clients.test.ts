/** The clients in other languages, each against the real service: contention, loss, a lost answer, crash and interruption. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, request as httpRequest, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../support/titled.js'
import { until } from '../support/wait.js'

/** For loaded machines; nothing is judged by it. */
/** Clients of several languages run at the same time, and one of them is compiled meanwhile. */
const WAIT_MS = 180_000

const root = fileURLToPath(new URL('../..', import.meta.url))
const clients = join(root, 'examples/clients')
const command = join(root, 'packages/cli/dist/main.js')

const LOST = 79
const NOT_ACQUIRED = 75

/** Holds a lock and says so, until its time is over, its input ends or the lock is lost. */
const PYTHON = `
import select, sys, time
sys.path.insert(0, sys.argv[1])
import holdfast_client as holdfast
client = holdfast.Client(sys.argv[2])
try:
    with client.lock(sys.argv[3], ttl=float(sys.argv[4]), wait=float(sys.argv[5]), note="a test") as lock:
        print("held", lock.fence, flush=True)
        while not select.select([sys.stdin], [], [], 0.05)[0]:
            lock.check()
except holdfast.NotAcquired as error:
    print("refused", error.body["holders"][0]["note"], flush=True)
    sys.exit(${NOT_ACQUIRED})
except holdfast.LockLost:
    print("lost", flush=True)
    sys.exit(${LOST})
print("released", flush=True)
`

/** The same as a command under the lock. It goes on for ever when its input ends only if somebody forgets to end it. */
const SHELL = 'echo "held $HOLDFAST_FENCE"; cat >/dev/null; echo released'

interface Language {
  readonly name: string
  /** Seconds; short, so that tests need not wait for long. */
  readonly ttl: number
  start(name: string, wait: number, url: string, ttl: number): ChildProcess
}

class Started {
  readonly child: ChildProcess
  readonly exited: Promise<unknown>
  text = ''
  errors = ''

  constructor(child: ChildProcess) {
    this.child = child
    this.exited = once(child, 'close')
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      this.text += chunk
    })
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      this.errors += chunk
    })
    child.stdin?.on('error', () => {})
  }

  /** The number that grows with every holder, once it holds. */
  async fence(): Promise<bigint> {
    const state = (): string => `${this.text}${this.errors}`
    await until('it holds the lock', () => /^held \d+\n/.test(this.text), { limitMs: WAIT_MS, state })
    return BigInt(/^held (\d+)/.exec(this.text)?.[1] ?? '')
  }

  get isHolding(): boolean {
    return this.text.startsWith('held')
  }

  async end(): Promise<{ readonly code: number | null; readonly text: string }> {
    await this.exited
    return { code: this.child.exitCode, text: this.text }
  }

  /** Ends it as it is meant to end. */
  async finish(): Promise<{ readonly code: number | null; readonly text: string }> {
    this.child.stdin?.end('\n')
    return await this.end()
  }
}

function has(program: string, ...args: readonly string[]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0
}

const go = [process.env.HOLDFAST_GO, 'go'].find((path) => path !== undefined && has(path, 'version'))
const missing: Readonly<Record<string, string | null>> = {
  Python: has('python3', '--version') ? null : 'there is no python3',
  shell: has('curl', '--version') ? null : 'there is no curl',
  Go: go === undefined ? 'there is no compiler of Go; HOLDFAST_GO says where one is' : null,
}

let folder: string
let service: ChildProcess
let url: string
const started: Started[] = []

beforeAll(async () => {
  if (!existsSync(command)) throw new Error('Build the command first: npm run build')
  folder = await mkdtemp(join(tmpdir(), 'holdfast-clients-'))
  const args = [command, 'serve', '--url', `sqlite:${folder}/locks.db`, '--listen', '127.0.0.1:0']
  service = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const output of [service.stdout, service.stderr]) {
    output?.setEncoding('utf8').on('data', (chunk: string) => {
      said += chunk
    })
  }
  await until('the service says where it is', () => /http:\/\/[\d.:]+\d\./.test(said), { state: () => said })
  url = /http:\/\/[\d.:]+\d/.exec(said)?.[0] ?? ''
})

afterAll(async () => {
  for (const { child } of started) if (child.exitCode === null) child.kill('SIGKILL')
  service.kill('SIGTERM')
  await once(service, 'close')
  await rm(folder, { recursive: true, force: true })
})

function start(language: Language, name: string, wait = 100, at = url, ttl = language.ttl): Started {
  const one = new Started(language.start(name, wait, at, ttl))
  started.push(one)
  return one
}

async function ask(path: string, body?: object): Promise<Record<string, unknown>> {
  const answer = await fetch(`${url}/v1/locks/${path}`, {
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    headers: { 'content-type': 'application/json' },
  })
  expect(answer.status).toBe(200)
  return (await answer.json()) as Record<string, unknown>
}

async function standing(name: string): Promise<readonly [holders: number, waiters: number]> {
  const { holders, waiters } = await ask(encodeURIComponent(name))
  return [(holders as unknown[]).length, (waiters as unknown[]).length]
}

async function seen(name: string, expected: readonly number[]): Promise<void> {
  const state = (): Promise<readonly number[]> => standing(name)
  const isSeen = async (): Promise<boolean> => String(await state()) === String(expected)
  await until(`${name} has ${expected.join()} holders and waiters`, isSeen, { limitMs: WAIT_MS, state })
}

/** Passes requests on, and loses the first answer to an acquire that was granted. */
async function losingProxy(): Promise<{ server: Server; url: string; lost: () => number }> {
  let lost = 0
  const server = createServer((incoming, outgoing) => {
    const onward = httpRequest(
      `${url}${incoming.url}`,
      { method: incoming.method, headers: { ...incoming.headers, host: new URL(url).host } },
      (answer) => {
        if (incoming.url?.endsWith('/acquire') && answer.statusCode === 200 && lost === 0) {
          lost += 1
          incoming.socket.destroy()
          return
        }
        outgoing.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(outgoing)
      },
    )
    onward.on('error', () => incoming.socket.destroy())
    incoming.pipe(onward)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, lost: () => lost }
}

const python: Language = {
  name: 'Python',
  ttl: 4,
  start: (name, wait, at, ttl) =>
    spawn('python3', ['-c', PYTHON, join(clients, 'python'), at, name, String(ttl), String(wait)], {
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
    }),
}

const shell: Language = {
  name: 'shell',
  ttl: 20,
  start: (name, wait, at, ttl) =>
    spawn(
      'sh',
      [
        join(clients, 'shell/with-lock.sh'),
        '-t',
        String(ttl),
        '-w',
        String(wait),
        '-n',
        'a "test"',
        name,
        'sh',
        '-c',
        SHELL,
      ],
      { env: { ...process.env, HOLDFAST_URL: at } },
    ),
}

const golang: Language = {
  name: 'Go',
  ttl: 4,
  start: (name, wait, at, ttl) =>
    spawn(join(folder, 'holdfast-go'), [name, wait === 0 ? '-1s' : `${wait}s`], {
      env: { ...process.env, HOLDFAST_URL: at, HOLDFAST_TTL: `${ttl}s` },
    }),
}

describe.concurrent.each([python, shell, golang])('the client in $name', (language) => {
  const why = missing[language.name] ?? null
  if (why !== null) {
    it.skip(`all of it (not run: ${why})`, () => {})
    return
  }
  const names = (what: string): string => `${language.name}: ${what} /ü "x"`

  beforeAll(() => {
    if (language !== golang || go === undefined) return
    const built = spawnSync(go, ['build', '-o', join(folder, 'holdfast-go'), '.'], {
      cwd: join(clients, 'go'),
      encoding: 'utf8',
    })
    expect(built.stderr).toBe('')
    expect(built.status).toBe(0)
  }, 600_000)

  it.concurrent('waits for another one, and then holds with a higher fence', async () => {
    const name = names('two')
    const first = start(language, name)
    const fence = await first.fence()
    const second = start(language, name)
    await seen(name, [1, 1])
    // Longer than the lease of most: the first lives on because it renews.
    await new Promise((resolve) => setTimeout(resolve, 5_000))
    expect(second.isHolding).toBe(false)
    expect(await first.finish()).toMatchObject({ code: 0, text: `held ${fence}\nreleased\n` })
    expect(await second.fence()).toBeGreaterThan(fence)
    expect(await second.finish()).toMatchObject({ code: 0 })
    expect(await standing(name)).toEqual([0, 0])
  })

  it.concurrent('tries once where it shall not wait', async () => {
    const name = names('once')
    const first = start(language, name)
    await first.fence()
    const second = start(language, name, 0)
    const { code, text } = await second.end()
    expect(code).toBe(NOT_ACQUIRED)
    expect(text).not.toContain('held')
    expect(await standing(name)).toEqual([1, 0])
    await first.finish()
  })

  it.concurrent('stops the work when an operator breaks the lock', async () => {
    const name = names('broken')
    const holder = start(language, name)
    await holder.fence()
    await ask(`${encodeURIComponent(name)}/break`, { reason: 'a test' })
    const { code, text } = await holder.end()
    expect(code).toBe(LOST)
    expect(text).not.toContain('released')
  })

  it.concurrent('asks again with the same id when an answer got lost', async () => {
    const name = names('unheard')
    const proxy = await losingProxy()
    const holder = start(language, name, 100, proxy.url, 60)
    await holder.fence()
    expect(proxy.lost()).toBe(1)
    expect(await standing(name)).toEqual([1, 0])
    expect(await holder.finish()).toMatchObject({ code: 0 })
    expect(await standing(name)).toEqual([0, 0])
    const { events } = await ask(`${encodeURIComponent(name)}/history`)
    expect(new Set((events as { ref: string }[]).map(({ ref }) => ref)).size).toBe(1)
    proxy.server.close()
  })

  it.concurrent('leaves the lock to the next one when it is killed', async () => {
    const name = names('killed')
    const first = start(language, name)
    const fence = await first.fence()
    first.child.kill('SIGKILL')
    const second = start(language, name)
    expect(await second.fence()).toBeGreaterThan(fence)
    await second.finish()
  })

  it.concurrent('leaves the line when it is interrupted', async () => {
    const name = names('interrupted')
    const first = start(language, name)
    await first.fence()
    const second = start(language, name)
    await seen(name, [1, 1])
    second.child.kill('SIGINT')
    await second.exited
    await seen(name, [1, 0])
    await first.finish()
  })
})

describe.skipIf(missing.shell !== null)(titled('the client in shell, besides', missing.shell), () => {
  it.concurrent('ends the command and releases the lock when it is told to stop', async () => {
    const name = 'shell: told to stop'
    const holder = start(shell, name)
    await holder.fence()
    holder.child.kill('SIGTERM')
    expect(await holder.end()).toMatchObject({ code: 143 })
    expect(holder.text).not.toContain('released')
    expect(await standing(name)).toEqual([0, 0])
  })

  it.concurrent('exits with what the command exits with, and refuses wrong usage', async () => {
    const run = async (...args: readonly string[]): Promise<number | null> => {
      const child = spawn('sh', [join(clients, 'shell/with-lock.sh'), ...args], {
        env: { ...process.env, HOLDFAST_URL: url },
        stdio: 'ignore',
      })
      await once(child, 'close')
      return child.exitCode
    }
    expect(await run('code', 'sh', '-c', 'exit 7')).toBe(7)
    expect(await run('code')).toBe(64)
    expect(await run('-t', '2', 'code', 'true')).toBe(64)
    expect(await run('x'.repeat(600), 'true')).toBe(69)
  })
})
