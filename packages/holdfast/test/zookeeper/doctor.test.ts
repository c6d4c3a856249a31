import { startZookeeper, startZookeeperEnsemble } from 'holdfast-servers'
import { afterEach, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { parseZookeeperUrl } from '../../src/backends/zookeeper/address.js'
import { checkAccess, checkServers, checkTransport } from '../../src/backends/zookeeper/doctor/checks.js'
import { CREATOR_ACL, OPEN_ACL } from '../../src/backends/zookeeper/wire/zookeeper.js'
import { examine } from '../../src/connect/examine.js'
import type { Finding } from '../../src/core/doctor.js'
import { BackendUnavailableError, HoldfastError, InvalidInputError } from '../../src/core/errors.js'
import { clientOf, isMissing, whyMissing } from './support.js'

const disposals: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const dispose of disposals.splice(0)) await dispose()
})

function about(findings: readonly Finding[], check: string): Finding {
  const found = findings.filter((each) => each.check === check)
  expect(found, `one finding about ${check} in ${JSON.stringify(findings)}`).toHaveLength(1)
  return found[0] as Finding
}

const host = { host: 'zk-1', port: 2_181 }
const serving = (version: string, mode: string): string =>
  `Zookeeper version: ${version}-abc, built on\nMode: ${mode}\n`

describe('the doctor', () => {
  it.skipIf(isMissing)(
    titled('finds nothing to warn of in a plain server, and that it is alone', whyMissing),
    async () => {
      const server = await startZookeeper()
      disposals.push(() => server.dispose())
      const findings = await examine(`${server.url}/locks`)
      expect(findings.filter(({ level }) => level === 'warning' || level === 'danger')).toEqual([])
      expect(about(findings, 'server').found).toMatch(/^ZooKeeper 3\.\d+\.\d+, standalone/)
      expect(about(findings, 'ensemble').level).toBe('note')
      expect(about(findings, 'session').level).toBe('ok')
      expect(about(findings, 'access').found).toContain('not there yet')
      expect(about(findings, 'latency').level).toBe('ok')
      const client = await clientOf(server.port)
      disposals.unshift(() => client.close())
      expect(await client.exists('/locks')).toBeNull()
      await client.addAuth('digest', 'somebody:secret')
      await client.create('/locks', Buffer.alloc(0), { acl: CREATOR_ACL })
      expect(about(await examine(`${server.url}/locks`), 'access').level).toBe('danger')
      const known = await examine(`${server.url.replace('//', '//somebody:secret@')}/locks`)
      expect(about(known, 'access').level).toBe('ok')
      expect(JSON.stringify(known)).not.toContain('secret')
    },
  )

  it.skipIf(isMissing)(
    titled('sees every server of an ensemble, and one that is down', whyMissing),
    async () => {
      const ensemble = await startZookeeperEnsemble()
      disposals.push(() => ensemble.dispose())
      const findings = await examine(`${ensemble.url}/locks`)
      expect(findings.filter(({ check }) => check === 'server').length).toBe(3)
      expect(about(findings, 'ensemble').level).toBe('ok')
      const [follower] = await ensemble.followers()
      await follower?.kill()
      const servers = (await examine(`${ensemble.url}/locks`)).filter(({ check }) => check === 'server')
      expect(servers.map(({ level }) => level).sort()).toEqual(['ok', 'ok', 'warning'])
    },
  )

  it.skipIf(isMissing)(titled('says what was asked for and not given', whyMissing), async () => {
    const server = await startZookeeper({ maxSessionMs: 8_000 })
    disposals.push(() => server.dispose())
    expect(about(await examine(server.url), 'session')).toMatchObject({ level: 'note' })
  })

  it.each([
    [[{ host, srvr: serving('3.4.14', 'standalone'), conf: null }], 'server', 'warning'],
    [
      [{ host, srvr: 'This ZooKeeper instance is not currently serving requests', conf: null }],
      'server',
      'warning',
    ],
    [[{ host, srvr: serving('3.8.0', 'follower'), conf: null }], 'ensemble', 'note'],
    [
      [{ host, srvr: serving('3.8.0', 'leader'), conf: 'tickTime=2000\nminSessionTimeout=1000\n' }],
      'ticks',
      'note',
    ],
  ] as const)('judges %o', (servers, check, level) => {
    expect(about(checkServers(servers), check).level).toBe(level)
  })

  it('judges the way to the servers and their access lists', () => {
    const levelOf = (url: string): string => about(checkTransport(parseZookeeperUrl(url)), 'transport').level
    expect(levelOf('zookeeper://zk-1/locks')).toBe('note')
    expect(levelOf('zookeeper://user:password@zk-1/locks')).toBe('warning')
    expect(levelOf('zookeepers://user:password@zk-1/locks')).toBe('ok')
    expect(checkAccess('/locks', OPEN_ACL, true)[0]?.level).toBe('note')
    expect(checkAccess('/locks', CREATOR_ACL, true)[0]?.level).toBe('ok')
  })

  it('rejects where nobody answers, and what `connect()` would refuse', async () => {
    await expect(examine('zookeeper://127.0.0.1:1/locks?sessionMs=1000')).rejects.toThrow(HoldfastError)
    await expect(examine('zookeeper://127.0.0.1:1/locks?sessionMs=1000')).rejects.toThrow(
      BackendUnavailableError,
    )
    await expect(examine('zookeeper://127.0.0.1:1/locks?recipy=ephemeral')).rejects.toThrow(InvalidInputError)
  })
})
