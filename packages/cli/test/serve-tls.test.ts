/** The files of TLS as an operator gives them: right, broken, mixed up. */

import { generateKeyPairSync } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeCertificate } from '../../../tools/servers/src/certificate.js'
import { Bench, type Ended, requireBuild } from './command.js'

const bench = new Bench()
const ANY_PORT = ['--listen', '127.0.0.1:0']
const SECRET = 'c2VjcmV0IG9mIG5vYm9keSBlbHNl'
let good: { readonly cert: string; readonly key: string }

beforeAll(async () => {
  requireBuild()
  const certificate = await makeCertificate()
  await certificate.writeTo(bench.folder)
  const { certFile, keyFile } = certificate.filesIn(bench.folder)
  good = { cert: certFile, key: keyFile }
})
afterAll(() => bench.clear())

function write(name: string, text: string): string {
  const file = join(bench.folder, name)
  writeFileSync(file, text)
  return file
}

/** It begins and ends as it should, and what is between is not what it says. */
function brokenPem(kind: string): string {
  return write(`broken ${kind}.pem`, `-----BEGIN ${kind}-----\n${SECRET}\n-----END ${kind}-----\n`)
}

function keyOf(kind: 'ec' | 'rsa'): string {
  const privateKeyEncoding = { type: 'pkcs8', format: 'pem' } as const
  const publicKeyEncoding = { type: 'spki', format: 'pem' } as const
  const { privateKey } =
    kind === 'ec'
      ? generateKeyPairSync('ec', { namedCurve: 'prime256v1', privateKeyEncoding, publicKeyEncoding })
      : generateKeyPairSync('rsa', { modulusLength: 2_048, privateKeyEncoding, publicKeyEncoding })
  return write(`another ${kind}.pem`, privateKey)
}

async function serveWith(files: { readonly cert?: string; readonly key?: string }): Promise<Ended> {
  const { cert, key } = { ...good, ...files }
  return await bench.holdfast(['serve', ...ANY_PORT, '--tls-cert', cert, '--tls-key', key])
}

function expectRefusal({ exitCode, stdout, stderr }: Ended, said: RegExp): void {
  expect(stderr).toMatch(/^holdfast: [^\n]*\n$/)
  expect(stderr).toMatch(said)
  expect(stderr).not.toMatch(/internal error|error:/)
  expect([exitCode, stdout]).toEqual([64, ''])
}

describe('holdfast serve with TLS', () => {
  it('serves with a certificate and its key', async () => {
    const running = bench.start(['serve', ...ANY_PORT, '--tls-cert', good.cert, '--tls-key', good.key])
    await running.prints('Holdfast serves locks at https://127.0.0.1:')
    running.process.kill('SIGTERM')
    expect(await running.ended).toMatchObject({ exitCode: 0, stderr: '' })
  })

  it('serves with both in one file', async () => {
    const both = write('both.pem', readFileSync(good.key, 'utf8') + readFileSync(good.cert, 'utf8'))
    const running = bench.start(['serve', ...ANY_PORT, '--tls-cert', both, '--tls-key', both])
    await running.prints('Holdfast serves locks at https://127.0.0.1:')
    running.process.kill('SIGTERM')
    expect(await running.ended).toMatchObject({ exitCode: 0, stderr: '' })
  })

  it('says that a certificate with a broken body is wrong usage, and does not repeat it', async () => {
    const ended = await serveWith({ cert: brokenPem('CERTIFICATE') })
    expectRefusal(ended, /the file of --tls-cert has no certificate that can be used \(ERR_\w+\)/)
    expect(ended.stderr).not.toContain(SECRET)
  })

  it('says that a key with a broken body is wrong usage, and does not repeat it', async () => {
    const ended = await serveWith({ key: brokenPem('PRIVATE KEY') })
    expectRefusal(ended, /the file of --tls-key has no key that can be used without a passphrase \(ERR_\w+\)/)
    expect(ended.stderr).not.toContain(SECRET)
  })

  it.each(['ec', 'rsa'] as const)('says that a key (%s) is that of another certificate', async (kind) => {
    const ended = await serveWith({ key: keyOf(kind) })
    expectRefusal(ended, /the key in the file of --tls-key does not belong to .* --tls-cert/)
  })

  it('says which is wrong if the two are mixed up', async () => {
    expectRefusal(await serveWith({ cert: good.key, key: good.cert }), /--tls-cert has no certificate/)
    expectRefusal(await serveWith({ key: good.cert }), /--tls-key has no key/)
  })
})
