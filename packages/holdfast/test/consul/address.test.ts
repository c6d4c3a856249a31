import { describe, expect, it } from 'vitest'
import { parseConsulUrl, recipeOptionsOf } from '../../src/backends/consul/address.js'
import { consulBackend } from '../../src/backends/consul/backend.js'
import { openConsul } from '../../src/backends/consul/open.js'
import { InvalidInputError } from '../../src/core/errors.js'

describe('the URLs of Consul', () => {
  it('name agents, a prefix and options', () => {
    const address = parseConsulUrl('consuls://one,two:8501,[::1]/apps/locks?lockDelayMs=0&dc=dc2')
    expect(address.hosts).toEqual([
      { host: 'one', port: 8_500 },
      { host: 'two', port: 8_501 },
      { host: '::1', port: 8_500 },
    ])
    expect(address).toMatchObject({ isSecure: true, prefix: 'apps/locks' })
    expect(recipeOptionsOf(address)).toEqual({ lockDelayMs: 0, prefix: 'apps/locks' })
  })

  it.each([
    'consul://user:secret@host/',
    'consul://host/?lockdelay=1',
    'consul://host/?lockDelayMs=60001',
    'consul://host/?lockDelayMs=x',
    'consul://host/?ttlMinMs=999',
    'consul://host/?exactPath=maybe',
    'consul://host/a?exactPath=true',
    'consul://host/a//b',
    'consul://host/../b',
    'consul://host:99999/',
    'consul://host/?ca=/x',
    'consul://host/?token=secret&tokenFile=/x',
    'consul:host',
  ])('refuse %s', async (url) => {
    const error: unknown = await openConsul(url).then(
      () => null,
      (reason: unknown) => reason,
    )
    expect(error).toBeInstanceOf(InvalidInputError)
    expect(String(error)).not.toContain('secret')
  })
})

describe('consulBackend', () => {
  it('takes agents and options, and connects to nobody yet', async () => {
    const backend = consulBackend({ hosts: ['127.0.0.1:1'], token: 'x', ttlMinMs: 2_000, lockDelayMs: 0 })
    expect(backend.guarantees).toMatchObject({
      keptBy: 'session',
      ttlMinMs: 2_000,
      fencing: 'strict',
      weights: 'one',
    })
    await backend.close()
  })

  it.each([
    { hosts: [] },
    { hosts: ['http://x'] },
    { hosts: ['x'], token: 'a\r\nX-Evil: 1' },
    { hosts: ['x'], tls: { cert: 'x' } },
    { hosts: ['x'], lockDelay: 1 },
    { hosts: ['x'], datacenter: '' },
  ])('refuses %j', (options) => {
    expect(() => consulBackend(options as never)).toThrow(InvalidInputError)
  })
})
