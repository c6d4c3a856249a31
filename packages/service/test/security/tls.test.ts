// @module-tag secrets
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import type { FastifyRequest } from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeCertificate } from '../../../../tools/servers/src/certificate.js'
import { hostCheck } from '../../src/security/hosts.js'
import { createService } from '../../src/service.js'
import { ask, makeTokens, type RunningService, startService } from './running-service.js'

/** T9 and T16: to other machines only with authentication and TLS, and then with nothing old. */

const { auth, token } = makeTokens({ all: [{ prefix: '', can: ['acquire', 'inspect', 'break'] }] })
let folder = ''
let ca = ''
let tls = { cert: '', key: '' }
let service: RunningService
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-tls-'))
  const certificate = await makeCertificate()
  await certificate.writeTo(folder)
  const { certFile, keyFile } = certificate.filesIn(folder)
  ca = certificate.text
  tls = { cert: await readFile(certFile, 'utf8'), key: await readFile(keyFile, 'utf8') }
  service = await startService({ auth, tls, allowHosts: ['locks.example'] })
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

describe('over TLS', () => {
  test('it serves, and says so in its address', async () => {
    expect(service.url).toMatch(/^https:/)
    expect((await service.get('/v1/locks', { ca, token: token.all })).status).toBe(200)
    expect((await service.get('/v1/locks', { ca })).status).toBe(401)
    await expect(service.get('/v1/locks', { token: token.all })).rejects.toThrow(/self-signed/)
  })

  test('browsers are told to stay with it, except where that would hold for other services too', async () => {
    const named = await service.get('/healthz', { ca, headers: { host: 'locks.example' } })
    expect(named.headers['strict-transport-security']).toMatch(/^max-age=\d{8}/)
    const own = await service.get('/healthz', { ca, headers: { host: 'localhost' } })
    expect(own.headers['strict-transport-security']).toBeUndefined()
  })

  test('nothing is said in the open, and nothing older than TLS 1.2', async () => {
    await expect(ask(`http://127.0.0.1:${service.port}/healthz`, {})).rejects.toThrow()
    for (const [maxVersion, works] of [
      ['TLSv1.1', false],
      ['TLSv1.2', true],
      ['TLSv1.3', true],
    ] as const) {
      expect([maxVersion, await shakesHands(maxVersion)]).toEqual([maxVersion, works])
    }
  })
})

function shakesHands(maxVersion: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3'): Promise<boolean> {
  return new Promise((resolve) => {
    const ciphers = 'DEFAULT@SECLEVEL=0'
    const socket = connect({
      host: '127.0.0.1',
      port: service.port,
      ca,
      maxVersion,
      minVersion: 'TLSv1',
      ciphers,
    })
    socket.once('secureConnect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
    socket.setTimeout(20_000, () => socket.destroy())
    socket.once('secureConnect', () => socket.destroy())
  })
}

describe('to other machines', () => {
  const listen = { host: '0.0.0.0', port: 0 }
  const url = 'memory:'

  test('it does not open without both', async () => {
    await expect(createService({ url, listen })).rejects.toThrow(/give `auth` .* and `tls`/)
    await expect(createService({ url, listen, auth })).rejects.toThrow(/give `tls`/)
    await expect(createService({ url, listen, tls })).rejects.toThrow(/give `auth`/)
    await expect(createService({ url, listen: { host: 'locks.example', port: 0 } })).rejects.toThrow(
      /give `auth`/,
    )
  })

  test('it opens with both, or if insecurity is asked for by name', async () => {
    for (const allowed of [{ auth, tls }, { insecure: true }]) {
      // It is not let to listen: tests do not open a machine to others.
      const service = await createService({ url, listen, ...allowed })
      await service.close({ drainMs: 0 })
    }
  })

  test('it knows the address by which it is called, and no other', () => {
    const check = hostCheck({ host: '0.0.0.0', allowHosts: [] })
    const call = (host: string, localAddress: string) => (): void =>
      check({ headers: { host }, socket: { localAddress } } as FastifyRequest)
    expect(call('10.1.2.3:4600', '10.1.2.3')).not.toThrow()
    expect(call('10.1.2.3', '::ffff:10.1.2.3')).not.toThrow()
    expect(call('[fe80::1]:4600', 'fe80::1%eth0')).not.toThrow()
    expect(call('10.1.2.4', '10.1.2.3')).toThrow(/allowHosts/)
    expect(call('evil.example', '10.1.2.3')).toThrow(/allowHosts/)
    expect(call('0.0.0.0', '10.1.2.3')).toThrow(/allowHosts/)
    // What is remembered is remembered for names that are always right, and not for an address of one connection.
    expect(call('10.1.2.3:4600', '10.1.2.9')).toThrow(/allowHosts/)
  })
})
