import { readFileSync } from 'node:fs'
import { missingReason, startZookeeper, type ZookeeperServer } from 'holdfast-servers'
import { describe, expect, it } from 'vitest'
import { titled } from '../../../../../test/support/titled.js'
import { until } from '../../../../../test/support/wait.js'
import type { TlsSettings } from '../../../src/backends/zookeeper/wire/zookeeper.js'
import { codeOfFailure, connected, disposed, missing, NOTHING } from './support.js'

function fileOf(path: string | undefined): string {
  if (path === undefined) throw new Error('The server speaks no TLS.')
  return readFileSync(path, 'utf8')
}

function open(server: ZookeeperServer, tls: TlsSettings, sessionMs = 10_000) {
  return connected({ hosts: [server], sessionMs, tls })
}

describe.skipIf(missing !== undefined)(
  titled('the ZooKeeper client with TLS', missing === undefined ? null : missingReason([missing])),
  () => {
    it('checks the certificate, and works', async () => {
      const server = await disposed(startZookeeper({ tls: true }))
      const ca = fileOf(server.ca)
      const client = await open(server, { ca })
      const data = Buffer.alloc(300_000, 'x')
      await client.create('/large', data)
      const [read] = await Promise.all([client.getData('/large'), client.sync('/')])
      expect(read.data.equals(data)).toBe(true)
      const byName = connected({
        hosts: [{ host: 'localhost', port: server.port }],
        sessionMs: 10_000,
        tls: { ca },
      })
      expect((await byName).state).toBe('connected')
      const refused = { code: 'CONNECTION_LOSS', wasSent: false }
      expect(await codeOfFailure(open(server, {}, 1_000)), 'a certificate of nobody').toEqual(refused)
      const otherName = open(server, { ca, servername: 'example.org' }, 1_000)
      expect(await codeOfFailure(otherName), 'a certificate for another name').toEqual(refused)
      const plain = connected({ hosts: [server], sessionMs: 1_000 })
      expect(await codeOfFailure(plain), 'no TLS at all').toEqual(refused)
      expect((await open(server, { rejectUnauthorized: false })).state).toBe('connected')
      await server.restart()
      await until('it is connected again', () =>
        client.exists('/large').then(
          () => true,
          () => false,
        ),
      )
      await client.close()
    })

    it('shows its own certificate', async () => {
      const server = await disposed(startZookeeper({ tls: 'client certificates' }))
      const [ca, key] = [fileOf(server.ca), fileOf(server.key)]
      const client = await open(server, { ca, cert: ca, key })
      expect((await client.exists('/'))?.version).toBe(0)
      expect((await codeOfFailure(open(server, { ca }, 1_000))).code).toBe('CONNECTION_LOSS')
    })
  },
)

describe.skipIf(missing !== undefined)(
  titled(
    'the ZooKeeper client and a server that demands credentials',
    missing === undefined ? null : missingReason([missing]),
  ),
  () => {
    it('is let in with them only', async () => {
      const server = await disposed(startZookeeper({ demandsAuth: true }))
      const known = await connected({
        hosts: [server],
        sessionMs: 10_000,
        auth: [{ scheme: 'digest', credential: 'user:secret' }],
      })
      expect((await known.create('/a', NOTHING)).path).toBe('/a')
      const stranger = await connected({ hosts: [server], sessionMs: 10_000 })
      const { code, wasSent } = await codeOfFailure(stranger.exists('/a'))
      expect([code, wasSent]).toEqual(['SASL_REQUIRED', true])
      await until('the session is over', () => stranger.state === 'expired')
      await known.close()
    })
  },
)
