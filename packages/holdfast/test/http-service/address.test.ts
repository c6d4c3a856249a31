import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { accessOf, parseServiceUrl } from '../../src/backends/http/address.js'
import { InvalidInputError } from '../../src/core/errors.js'
import { connect } from '../../src/index.js'
import { remoteBackend } from '../../src/remote.js'

async function tokenOf(url: string): Promise<string | null> {
  return (await accessOf(parseServiceUrl(url))).token
}

describe('the URLs of the lock service', () => {
  it('name instances and a token', () => {
    expect(parseServiceUrl('https://a%2Fb@one,two:4601,[::1]/')).toMatchObject({
      hosts: [
        { host: 'one', port: 4_600 },
        { host: 'two', port: 4_601 },
        { host: '::1', port: 4_600 },
      ],
      isSecure: true,
      token: 'a/b',
    })
  })

  it('leave the token to a file or to the environment', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-token-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    await writeFile(join(folder, 'token'), 'from-a-file\n')
    vi.stubEnv('HOLDFAST_TOKEN', 'from-outside')
    onTestFinished(() => void vi.unstubAllEnvs())
    expect(await tokenOf(`http://host?tokenFile=${folder}/token`)).toBe('from-a-file')
    expect(await tokenOf('http://in-the-url@host')).toBe('in-the-url')
    expect(await tokenOf('http://host')).toBe('from-outside')
    vi.stubEnv('HOLDFAST_TOKEN', '')
    expect(await tokenOf('http://host')).toBe(null)
  })

  it.each([
    'http://secret:word@host/',
    'http://host/path',
    'http://host:99999',
    'http://host?ca=/x',
    'http://host?token=secret',
    'http://secret@host?tokenFile=/x',
    'http://sec%0D%0Aret@host',
    'http:host',
  ])('refuse %s', async (url) => {
    const error: unknown = await connect(url).then(
      () => null,
      (reason: unknown) => reason,
    )
    expect(error).toBeInstanceOf(InvalidInputError)
    expect(String(error)).not.toContain('secret')
  })
})

describe('remoteBackend', () => {
  it.each([
    [{ hosts: [] }],
    [{ hosts: ['a b'] }],
    [{ hosts: ['host'], token: 'a\r\nb' }],
    [{ hosts: ['host'], port: 1 }],
    [{ hosts: ['host'], tls: { key: 'x' } }],
  ])('refuses %j', async (options) => {
    await expect(remoteBackend(options as never)).rejects.toBeInstanceOf(InvalidInputError)
  })
})
