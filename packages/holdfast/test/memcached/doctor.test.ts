import { memcachedCommand } from 'holdfast-servers'
import { describe, expect, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { checkFacts, checkTransport, type Facts } from '../../src/backends/memcached/doctor/checks.js'
import { examine } from '../../src/connect/examine.js'
import type { Finding } from '../../src/core/doctor.js'
import { isMissing, rejection, started, whyMissing } from './support.js'

function about(findings: readonly Finding[], check: string): Finding {
  const found = findings.filter((each) => each.check === check)
  expect(found, `one finding about ${check} in ${JSON.stringify(findings)}`).toHaveLength(1)
  return found[0] as Finding
}

describe.skipIf(isMissing)(titled('the doctor', whyMissing), () => {
  test('finds nothing to warn of in a plain server, and says what memcached is not', async () => {
    const server = await started()
    const findings = await examine(server.url)
    expect(findings.filter(({ level }) => level === 'warning' || level === 'danger')).toEqual([])
    expect(about(findings, 'safety').level).toBe('note')
    expect(about(findings, 'server').found).toContain('1.6')
    for (const check of ['transport', 'eviction', 'clock', 'listing', 'items', 'clients', 'latency']) {
      expect(about(findings, check).level).toBe('ok')
    }
    expect(about(findings, 'uptime').found).toMatch(/seconds? ago/)
  })

  test('sees items that were dropped, and changes nothing', async () => {
    const server = await started({ memoryMb: 2 })
    const fill = Array.from({ length: 60_000 }, (_, index) => `ms f${index} 5 T600 q\r\nxxxxx`).join('\r\n')
    await memcachedCommand(server.port, `${fill}\r\nmn`, /MN\r\n$/, { timeoutMs: 30_000 })
    const before = (await server.stats())['cmd_set']
    expect(about(await examine(server.url), 'eviction').level).toBe('danger')
    expect((await server.stats())['cmd_set']).toBe(before)
  })

  test('sees what was turned off', async () => {
    const server = await started({ args: ['-M', '-o', 'no_lru_crawler,idle_timeout=60'] })
    const findings = await examine(server.url)
    expect(about(findings, 'eviction')).toMatchObject({
      level: 'warning',
      found: expect.stringContaining('-M'),
    })
    expect(about(findings, 'listing').level).toBe('note')
    expect(about(findings, 'idle').found).toContain('60 s')
  })

  test('refuses what connect() refuses', async () => {
    const without = await started({ args: ['-C'] })
    expect(String(await rejection(examine(without.url)))).toContain('`-C`')
    expect(String(await rejection(examine(`${without.url}?recipy=add`)))).toContain('recipy')
  })
})

test('facts that only other servers have', () => {
  const facts = (stats: Record<string, string>, settings: Record<string, string> = {}): Facts => ({
    version: '1.6.18',
    stats: new Map(Object.entries(stats)),
    settings: new Map(Object.entries(settings)),
  })
  expect(about(checkFacts(facts({ time: '4000' })), 'clock').level).toBe('danger')
  expect(
    about(checkFacts(facts({ bytes: '90', limit_maxbytes: '100', evictions: '0' })), 'eviction').level,
  ).toBe('warning')
  expect(about(checkFacts(facts({ max_connections: '10', curr_connections: '9' })), 'clients').level).toBe(
    'warning',
  )
  expect(about(checkFacts(facts({}, { item_size_max: '2048' })), 'items').level).toBe('note')
  expect(about(checkTransport({ host: 'cache-1', port: 1, password: 'x' }), 'transport').level).toBe(
    'warning',
  )
  expect(about(checkTransport({ host: 'cache-1', port: 1 }), 'transport').level).toBe('note')
  expect(about(checkTransport({ host: 'cache-1', port: 1, tls: true }), 'transport').level).toBe('ok')
})
