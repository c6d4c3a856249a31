// @module-tag secrets
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startRedis } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { type Answer, type Asking, ask, pathOf } from './running-service.js'
import { CommandRun } from './served-command.js'

/**
 * T6, T18 and T25: secrets are planted in everything that the command and its callers are given, and then searched for in
 * everything that comes out, besides the one answer that gives each to its owner.
 */

const PASSWORD = 'PLANTED-store-password'
const CLAIM_ID = 'PLANTED_claim_id_0123456789'
const STRANGER = `hft_PLANTED${'x'.repeat(36)}`

let folder = ''
let redis: Awaited<ReturnType<typeof startRedis>>
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-secrets-'))
  redis = await startRedis({ args: ['--requirepass', PASSWORD] })
})
afterAll(async () => {
  await redis?.dispose()
  await rm(folder, { recursive: true, force: true })
})

/** Each secret as it is, and as it looks in a URL, in hex and in base64. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [
    secret,
    encodeURIComponent(secret),
    bytes.toString('hex'),
    bytes.toString('base64url'),
    bytes.toString('base64'),
  ]
}

function found(text: string, secrets: readonly string[]): string[] {
  const forms = secrets.flatMap(formsOf)
  // What is printed may have quotes or escapes inside, but a part of a secret is enough.
  return forms.filter((form) => text.includes(form) || text.includes(form.slice(4)))
}

class Listener {
  text = ''
  readonly #stop = new AbortController()

  async open(url: string, token: string): Promise<void> {
    const response = await fetch(`${url}/v1/events`, {
      headers: { authorization: `Bearer ${token}` },
      signal: this.#stop.signal,
    })
    const read = async (): Promise<void> => {
      for await (const chunk of response.body ?? []) this.text += Buffer.from(chunk as Uint8Array).toString()
    }
    read().catch(() => undefined)
  }

  close(): void {
    this.#stop.abort()
  }
}

test('nothing that was planted comes out: answers, events, metrics, pages, logs, errors', async () => {
  const authFile = join(folder, 'auth.json')
  const made = new CommandRun([
    'token',
    'create',
    '--file',
    authFile,
    '--name',
    'ops',
    '--prefix',
    '',
    '--can',
    'acquire,inspect,break',
  ])
  expect(await made.end()).toBe(0)
  const token = made.stdout.trim()
  expect(token).toMatch(/^hft_[A-Za-z0-9_-]{43}$/)

  const serving = new CommandRun(
    ['serve', '--url', redis.url, '--listen', '127.0.0.1:0', '--auth', authFile, '--json-log'],
    {
      HOLDFAST_DEBUG: '1',
    },
  )
  const seen: string[] = [made.stderr, await readFile(authFile, 'utf8')]
  const url = await serving.prints(/http:\/\/127\.0\.0\.1:\d+/)
  const listener = new Listener()
  const secrets = [PASSWORD, CLAIM_ID, STRANGER, token]
  const look = async (path: string, asking: Asking = {}): Promise<Answer> => {
    const answer = await ask(`${url}${path}`, { token, ...asking })
    seen.push(`${path.split('?')[0]} ${answer.status} ${JSON.stringify(answer.headers)} ${answer.text}`)
    return answer
  }
  const post = (path: string, body: unknown, asking: Asking = {}): Promise<Answer> =>
    look(path, { method: 'POST', body, ...asking })

  try {
    await listener.open(url, token)
    // What belongs to its owner, and shows that the search finds what it looks for.
    const granted = await ask(`${url}${pathOf('planted', 'acquire')}`, {
      method: 'POST',
      body: { id: CLAIM_ID, note: 'seen' },
      token,
    })
    expect(granted.status).toBe(200)
    expect(found(granted.text, [CLAIM_ID])).not.toEqual([])
    const claim = granted.json['claim'] as string
    const record = await ask(`${url}/v1/records/claim`, {
      method: 'POST',
      body: { scope: { tenant: 't', operation: 'o' }, key: 'planted-key-0123456789' },
      token,
    })
    expect(record.status).toBe(201)
    secrets.push((record.json['claim'] as { owner: string }).owner)
    const issued = await ask(`${url}/v1/tokens/issue`, {
      method: 'POST',
      body: { subject: 's', purpose: 'p' },
      token,
    })
    expect(issued.status).toBe(201)
    secrets.push(issued.json['token'] as string)

    // Everybody else, and every way to make the service talk about it.
    expect((await post(pathOf('planted', 'acquire'), {})).status).toBe(423)
    expect((await post(pathOf('planted', 'renew'), { claim })).status).toBe(200)
    expect((await post('/v1/renew', { claims: [{ name: 'planted', claim, leaseMs: 0 }] })).status).toBe(200)
    for (const body of [
      { claim: `${claim}!` },
      { claim: [claim] },
      { claim, [claim]: 1 },
      `{"claim":"${claim}`,
      { claim, ttlMs: claim },
    ]) {
      for (const action of ['renew', 'release', 'acquire', 'break']) {
        expect((await post(pathOf('planted', action), body)).status).toBe(400)
      }
    }
    for (const path of [
      '/v1/locks',
      pathOf('planted'),
      pathOf('planted', 'history'),
      '/v1/deadlocks',
      '/v1/store',
      '/metrics',
      '/healthz',
      '/readyz',
      '/openapi.json',
      '/docs/',
      '/docs/static/swagger-initializer.js',
      '/',
      '/nothing',
    ]) {
      await look(path)
      await look(path, { token: STRANGER })
      await look(`${path}?token=${STRANGER}&claim=${claim}`)
    }
    await look('/v1/locks', {
      headers: { authorization: `Basic ${Buffer.from(`x:${STRANGER}`).toString('base64')}` },
    })
    await look('/v1/locks', {
      headers: { authorization: `Bearer ${STRANGER} ${token}`, cookie: `t=${token}` },
    })
    await post('/v1/tokens/consume', {
      token: `${String(issued.json['token'])}x`,
      subject: 's',
      purpose: 'p',
    })
    await post('/v1/records/read', { scope: { tenant: 't', operation: 'o' }, key: 'no-such-key-0123456789' })
    const broken = await post(pathOf('planted', 'break'), { reason: 'for the test' })
    expect(broken.json['broken']).toHaveLength(1)
    expect((await post(pathOf('planted', 'renew'), { claim })).status).toBe(410)
    await until('the listener was told', () => listener.text.includes('"kind":"broken"'))

    // A store that goes away makes drivers talk.
    await redis.kill()
    const lost = await post(pathOf('lost', 'acquire'), { id: CLAIM_ID })
    expect([503, 504]).toContain(lost.status)
    await look('/readyz')
    await look('/v1/locks')
    await post(pathOf('planted', 'renew'), { claim })
    await redis.restart()
    await until('it serves again', async () => (await look('/readyz')).status === 200)
  } finally {
    listener.close()
    await serving.stop()
  }
  expect(serving.output).toContain('"route":"/v1/locks/:name/acquire"')
  expect(serving.output).toContain('"kind":"break"')
  expect(listener.text).toContain('event: snapshot')
  const everything = [...seen, listener.text, serving.output].join('\n')
  // The file keeps the digest of a token, and nothing but.
  expect(found(everything, secrets)).toEqual([])
  // A name may be shown to those who may see it; in metrics it is a label of nobody.
  const metrics = seen.filter((text) => text.startsWith('/metrics 200')).join('\n')
  expect(metrics).toContain('holdfast_')
  expect(metrics).not.toMatch(/planted|seen/)
})

describe('a start that fails says why without a secret', () => {
  const login = `someone:${PASSWORD}`
  const starts: [string, (folder: string) => readonly string[]][] = [
    ['nobody there', () => ['--url', `redis://${login}@127.0.0.1:1/`]],
    ['no such scheme', () => ['--url', `nothing://${login}@127.0.0.1/`]],
    ['no URL', () => ['--url', `redis://${login}@127.0.0.1:nothing/`]],
    ['an unknown option in it', () => ['--url', `redis://127.0.0.1:1/?password=${PASSWORD}&nothing=1`]],
    ['no such auth file', (at) => ['--url', 'memory:', '--auth', join(at, 'nothing.json')]],
    ['a token in the auth file', (at) => ['--url', 'memory:', '--auth', join(at, 'broken.json')]],
    ['an auth file that is none', (at) => ['--url', 'memory:', '--auth', join(at, 'half.json')]],
    ['an open address', () => ['--url', `redis://${login}@127.0.0.1:1/`, '--listen', '0.0.0.0:0']],
  ]
  test.each(starts)('%s', async (_why, args) => {
    await writeFile(
      join(folder, 'broken.json'),
      JSON.stringify({ tokens: [{ name: 'x', sha256: STRANGER, rights: [] }] }),
    )
    await writeFile(join(folder, 'half.json'), `{"tokens":[{"name":"${STRANGER}`)
    const run = new CommandRun(['serve', '--listen', '127.0.0.1:0', ...args(folder)], { HOLDFAST_DEBUG: '1' })
    expect(await run.end()).not.toBe(0)
    expect(run.stderr).toMatch(/^holdfast: \S+ .{10,}/)
    expect(found(run.output, [PASSWORD, STRANGER])).toEqual([])
  })
})
