import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type ConsulServer,
  missingPrograms,
  missingReason,
  startConsul,
  startConsulCluster,
} from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { examine } from '../../src/connect/examine.js'
import type { LockLostError } from '../../src/core/errors.js'
import { connectTo, isMissing, QUICK, serverOfFile, whyMissing } from './support.js'

const server = serverOfFile()

const MASTER = '11111111-2222-3333-4444-555555555555'
let consul: ConsulServer
let token: string

/** A token with these rights and no others. */
async function tokenWith(name: string, rules: string): Promise<string> {
  await consul.request('PUT', '/v1/acl/policy', { body: JSON.stringify({ Name: name, Rules: rules }) })
  const { text } = await consul.request('PUT', '/v1/acl/token', {
    body: JSON.stringify({ Policies: [{ Name: name }] }),
  })
  return (JSON.parse(text) as { SecretID: string }).SecretID
}

beforeAll(async () => {
  if (isMissing) return
  const acl = `acl { enabled = true default_policy = "deny" tokens { master = "${MASTER}" } }`
  consul = await startConsul({ token: MASTER, args: ['-hcl', acl] })
  token = await tokenWith(
    'locks',
    'key_prefix "apps/" { policy = "write" } session_prefix "" { policy = "write" }',
  )
})
afterAll(() => consul?.dispose())

async function rejection(call: Promise<unknown>): Promise<unknown> {
  return await call.then(
    () => null,
    (error: unknown) => error,
  )
}

describe.skipIf(isMissing)(titled('ACLs', whyMissing), () => {
  it('let in who has the token, by a file or by the URL', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-consul-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const file = join(folder, 'token')
    await writeFile(file, `${token}\n`)
    const a = await connectTo(`${consul.url}/apps?${QUICK}&tokenFile=${encodeURIComponent(file)}`)
    const b = await connectTo(`${consul.url}/apps?${QUICK}&token=${token}`)
    const hold = await a.mutex('it').acquire()
    expect(await b.mutex('it').tryAcquire()).toBe(null)
    await hold.extend()
    await hold.release()
    await using permit = await b.semaphore('pool', 2).acquire()
    await permit.extend()
  })

  it('keep out who has none, or one for something else, and it does not look like a lock of others', async () => {
    const nobody = await connectTo(`${consul.url}/apps?${QUICK}`)
    const elsewhere = await connectTo(`${consul.url}/other?${QUICK}&token=${token}`)
    const reader = await tokenWith(
      'reader',
      'key_prefix "" { policy = "read" } session_prefix "" { policy = "write" }',
    )
    const reading = await connectTo(`${consul.url}/apps?${QUICK}&token=${reader}`)
    for (const locks of [nobody, elsewhere, reading]) {
      for (const lock of [locks.mutex('it'), locks.semaphore('pool', 2)]) {
        const error = await rejection(lock.acquire({ waitMs: 2_000 }))
        expect(error).toMatchObject({ code: 'UNSUPPORTED' })
        expect(String(error)).not.toContain(token)
      }
    }
  })

  it('that are taken away end a hold in time, though every renewal is answered', async () => {
    const rules = 'key_prefix "apps/" { policy = "write" } session_prefix "" { policy = "write" }'
    const passing = await tokenWith('passing', rules)
    const locks = await connectTo(`${consul.url}/apps?${QUICK}&token=${passing}`, { ttlMs: 3_000 })
    const hold = await locks.mutex('revoked').acquire()
    const { text } = await consul.request('GET', '/v1/acl/policy/name/passing')
    const { ID } = JSON.parse(text) as { ID: string }
    await consul.request('DELETE', `/v1/acl/policy/${ID}`)
    expect(await rejection(hold.extend())).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await until('the signal of the hold aborts', () => hold.signal.aborted)
    expect((hold.signal.reason as LockLostError).reason).toBe('expired')
    expect(hold.isHeld).toBe(false)
  })

  it('take no token that would begin another header', async () => {
    await expect(connectTo(`${consul.url}/apps?token=a%20b`)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    const error = await rejection(connectTo(`${consul.url}/apps?token=geheim%C3%A9`))
    expect(String(error)).not.toContain('geheim')
  })

  it('are what the doctor looks at', async () => {
    const found = await examine(`${consul.url}/apps?token=${token}`)
    expect(found.find(({ check }) => check === 'rights')?.level).toBe('ok')
    expect(found.find(({ check }) => check === 'token')?.level).toBe('note')
    const elsewhere = await examine(`${consul.url}/other?token=${token}`)
    const rights = elsewhere.find(({ check }) => check === 'rights')
    expect(rights?.level).toBe('danger')
    expect(rights?.found).toContain('key:write')
    expect(JSON.stringify([...found, ...elsewhere])).not.toContain(token)
    expect((await examine(consul.url)).find(({ check }) => check === 'rights')?.level).toBe('danger')
  })
})

describe.skipIf(isMissing)(titled('the doctor', whyMissing), () => {
  it('looks at one server', async () => {
    const single = await server()
    const found = await examine(single.url)
    const byCheck = new Map(found.map(({ check, level }) => [check, level]))
    expect(Object.fromEntries(byCheck)).toMatchObject({
      transport: 'ok',
      leader: 'ok',
      servers: 'warning',
      version: 'ok',
      agent: 'note',
      connections: 'ok',
      rights: 'note',
      ttl: 'ok',
      'lock delay': 'ok',
      reads: 'ok',
      latency: 'ok',
    })
    const bold = await examine(`${single.url}?ttlMinMs=1000&lockDelayMs=0`)
    expect(bold.find(({ check }) => check === 'lock delay')?.level).toBe('note')
  })

  it('says that the servers take no session so short, and that few connections are few', async () => {
    const strict = await startConsul({
      sessionTtlMin: '10s',
      args: ['-hcl', 'limits { http_max_conns_per_client = 50 }'],
    })
    onTestFinished(() => strict.dispose())
    const found = await examine(`${strict.url}?ttlMinMs=2000`)
    expect(found.find(({ check }) => check === 'ttl')?.level).toBe('warning')
    expect(found.find(({ check }) => check === 'connections')?.level).toBe('note')
  })

  it('looks at three servers, and at one that has lost the others', async () => {
    const cluster = await startConsulCluster()
    onTestFinished(() => cluster.dispose())
    expect((await examine(cluster.url)).find(({ check }) => check === 'servers')?.level).toBe('ok')
    const [mine, ...others] = cluster.servers
    await Promise.all(others.map((each) => each.kill()))
    // Until it has noticed, it names a leader that is gone; after that it says that there is none, or nothing at all.
    await until('the doctor sees that there is no leader', async () => {
      const found = await examine(mine?.url ?? '').catch(() => null)
      return found === null || found.find(({ check }) => check === 'leader')?.level === 'danger'
    })
  })

  it('refuses what connect() refuses, and rejects where nobody answers', async () => {
    await expect(examine('consul://127.0.0.1:1/?lockDelay=3')).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    })
    await expect(examine('consul://127.0.0.1:1/')).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })
})

describe.skipIf(isMissing || missingPrograms(['openssl']).length > 0)(
  titled('TLS', whyMissing ?? (missingPrograms(['openssl']).length > 0 ? missingReason(['openssl']) : null)),
  () => {
    it('is spoken with a certificate that is checked', async () => {
      const secure = await startConsul({ tls: true })
      onTestFinished(() => secure.dispose())
      const ca = encodeURIComponent(secure.ca ?? '')
      const locks = await connectTo(`${secure.url}?${QUICK}&ca=${ca}`)
      const hold = await locks.mutex('it').acquire()
      await hold.extend()
      expect(await hold.release()).toBe('released')
      await expect(connectTo(`${secure.url}?${QUICK}`)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
      expect(
        (await examine(`${secure.url}?ca=${ca}`)).find(({ check }) => check === 'transport')?.level,
      ).toBe('ok')
    })
  },
)
