import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  missingPrograms,
  missingReason,
  requiredStores,
  startConsul,
  startConsulCluster,
  storeFor,
  stores,
} from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../support/titled.js'

const [missing] = missingPrograms(['consul'])
const required = requiredStores(process.env.HOLDFAST_REQUIRE_STORES, [...stores.keys()])
if (missing !== undefined && required.has('consul')) throw new Error(`${missing} is required and not there.`)

/** Disposes of what a test started, whatever comes of the test. */
async function started<T extends { dispose(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  const thing = await starting
  onTestFinished(() => thing.dispose())
  return thing
}

describe.skipIf(missing !== undefined)(
  titled('startConsul', missing === undefined ? null : missingReason([missing])),
  () => {
    it('gives a server that writes, on the loopback address, and keeps its data over a crash', async () => {
      const server = await started(startConsul())
      expect(server.url).toBe(`consul://127.0.0.1:${server.port}`)
      expect((await server.request('PUT', '/v1/kv/a', { body: 'x' })).text).toContain('true')
      const before = { port: server.port, pid: server.pid }
      await server.kill()
      await server.restart()
      expect(server.port).toBe(before.port)
      expect(server.pid).not.toBe(before.pid)
      expect((await server.request('GET', '/v1/kv/a?raw&consistent')).text).toBe('x')
      expect(
        execFileSync(server.command[0] ?? '', [...server.command.slice(1), 'version']).toString(),
      ).toMatch(/^Consul v/)
    })

    it('answers nothing while it is paused', async () => {
      const server = await started(startConsul())
      await server.pause()
      await expect(server.request('GET', '/v1/status/leader', { timeoutMs: 500 })).rejects.toThrow()
      await server.resume()
      expect((await server.request('GET', '/v1/status/leader')).status).toBe(200)
    })

    it('takes arguments and the shortest session', async () => {
      const server = await started(
        startConsul({ sessionTtlMin: '10s', args: ['-hcl', 'datacenter = "here"'] }),
      )
      expect((await server.request('GET', '/v1/agent/self')).text).toContain('"Datacenter":"here"')
      const short = await server.request('PUT', '/v1/session/create', { body: '{"TTL":"2s"}' })
      expect(short.status).toBe(500)
    })

    it('leaves no process and no folder behind', async () => {
      const server = await startConsul()
      const { folder } = server
      await Promise.all([server.dispose(), server.dispose()])
      expect(existsSync(folder)).toBe(false)
      await expect(server.request('GET', '/v1/status/leader')).rejects.toThrow('ECONNREFUSED')
    })
  },
)

describe.skipIf(missing !== undefined)(
  titled('startConsulCluster', missing === undefined ? null : missingReason([missing])),
  () => {
    it('has a leader, and another one after that is killed', async () => {
      const cluster = await started(startConsulCluster())
      expect(cluster.servers.length).toBe(3)
      const leader = await cluster.leader()
      await leader.request('PUT', '/v1/kv/a', { body: 'x' })
      await leader.kill()
      const next = await cluster.failedOver(leader)
      expect(next).not.toBe(leader)
      await cluster.settled()
      expect((await next.request('GET', '/v1/kv/a?raw&consistent')).text).toBe('x')
      await leader.restart()
      await cluster.settled()
      expect((await leader.request('GET', '/v1/kv/a?raw&consistent')).text).toBe('x')
    })
  },
)

describe('the stores', () => {
  it.skipIf(missing !== undefined)(
    titled('are there by name', missing === undefined ? null : missingReason([missing])),
    async () => {
      const outcome = await storeFor('consul')
      if (outcome.kind !== 'ready') throw new Error(outcome.reason)
      expect(outcome.store.control.url).toBe(outcome.store.url)
      await outcome.store.dispose()
    },
  )

  it('use the program of a folder that is named', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-consul-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const env = { PATH: '', XDG_CACHE_HOME: folder, HOLDFAST_CONSUL_BIN: folder }
    expect(missingPrograms(['consul'], env)).toEqual(['consul'])
    await writeFile(join(folder, 'consul'), '#!/bin/sh\n')
    await chmod(join(folder, 'consul'), 0o755)
    expect(missingPrograms(['consul'], env)).toEqual([])
  })
})
