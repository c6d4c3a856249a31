import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import {
  EtcdError,
  type EtcdServer,
  missingPrograms,
  missingReason,
  requiredStores,
  startEtcd,
  startEtcdCluster,
  storeFor,
  stores,
} from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../support/titled.js'

const run = promisify(execFile)
const missing = missingPrograms(['etcd', 'etcdctl', 'openssl'])
const required = requiredStores(process.env.HOLDFAST_REQUIRE_STORES, [...stores.keys()])
if (missing.length > 0 && required.has('etcd'))
  throw new Error(`${missing.join(', ')}: required and not there.`)

async function started<T extends { dispose(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  const thing = await starting
  onTestFinished(() => thing.dispose())
  return thing
}

async function put(server: EtcdServer, key: string, value: string): Promise<void> {
  const encode = (text: string): string => Buffer.from(text).toString('base64')
  await server.request('/v3/kv/put', { key: encode(key), value: encode(value) }, { timeoutMs: 3_000 })
}

async function etcdctl(server: EtcdServer, ...args: string[]): Promise<string> {
  const { stdout } = await run('etcdctl', args, { env: { ...process.env, ...server.env }, timeout: 20_000 })
  return stdout
}

describe.skipIf(missing.length > 0)(
  titled('startEtcd', missing.length > 0 ? missingReason(missing) : null),
  () => {
    it('gives a server that answers on the loopback address, and keeps its data over a crash', async () => {
      const server = await started(startEtcd())
      expect(server.url).toBe(`etcd://127.0.0.1:${server.port}`)
      expect(await server.keys('')).toEqual([])
      await put(server, 'a/ключ', 'värde')
      await put(server, 'b', '')
      expect(await server.keys('a/')).toEqual(['a/ключ'])
      expect(await etcdctl(server, 'get', '--print-value-only', 'a/ключ')).toBe('värde\n')
      await server.kill()
      await server.restart()
      expect(await server.keys('')).toEqual(['a/ключ', 'b'])
      await expect(server.request('/v3/kv/txn', { success: [{ request_range: {} }] })).rejects.toThrow(
        EtcdError,
      )
    })

    it('answers nothing while it is paused', async () => {
      const server = await started(startEtcd())
      await server.pause()
      await expect(server.request('/v3/kv/range', { key: 'YQ==' }, { timeoutMs: 300 })).rejects.toThrow()
      await server.resume()
      await put(server, 'a', 'b')
    })

    it('speaks TLS', async () => {
      const server = await started(startEtcd({ tls: true }))
      expect(server.url).toBe(`etcds://127.0.0.1:${server.port}`)
      expect(existsSync(server.ca ?? '')).toBe(true)
      await put(server, 'a', 'b')
      expect(await etcdctl(server, 'get', '--print-value-only', 'a')).toBe('b\n')
    })

    it('leaves nothing behind', async () => {
      const server = await startEtcd()
      await Promise.all([server.dispose(), server.dispose()])
      expect(existsSync(server.folder)).toBe(false)
    })
  },
)

describe.skipIf(missing.length > 0)(
  titled('startEtcdCluster', missing.length > 0 ? missingReason(missing) : null),
  () => {
    it('elects another leader when one is killed, and takes it back', async () => {
      const cluster = await started(startEtcdCluster())
      expect(cluster.url).toBe(`etcd://${cluster.members.map(({ port }) => `127.0.0.1:${port}`).join(',')}`)
      const leader = await cluster.leader()
      await leader.kill()
      const next = await cluster.failedOver(leader)
      await put(next, 'a', 'b')
      await leader.restart()
      await cluster.settled()
      expect(await leader.keys('a')).toEqual(['a'])
    })

    it('cuts a member off from the others, which go on', async () => {
      const cluster = await started(startEtcdCluster())
      const leader = await cluster.leader()
      await cluster.isolate(leader)
      const next = await cluster.failedOver(leader)
      await put(next, 'during', '1')
      await expect(put(leader, 'cut', '1')).rejects.toThrow()
      cluster.heal()
      await cluster.settled()
      expect(await leader.keys('during')).toEqual(['during'])
    })

    it('is a store by name', async () => {
      const outcome = await storeFor('etcd-cluster')
      if (outcome.kind !== 'ready') throw new Error(outcome.reason)
      onTestFinished(() => outcome.store.dispose())
      expect(outcome.store.control.members).toHaveLength(3)
    })
  },
)
