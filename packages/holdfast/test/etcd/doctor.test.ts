import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import {
  type EtcdServer,
  missingPrograms,
  missingReason,
  startEtcd,
  startEtcdCluster,
} from 'holdfast-servers'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { parseEtcdUrl } from '../../src/backends/etcd/address.js'
import { checkCluster, checkMember, checkTransport } from '../../src/backends/etcd/doctor/checks.js'
import { StatusResponse } from '../../src/backends/etcd/messages.js'
import { hasLeaseFault } from '../../src/backends/etcd/version.js'
import { examine } from '../../src/connect/examine.js'
import { BackendUnavailableError } from '../../src/core/errors.js'
import { watchForStrays } from '../support/strays.js'
import { etcdctl, locksAt, rejection, TIMEOUT_MS } from './support.js'

const missing = missingPrograms(['etcd', 'etcdctl'])

watchForStrays()

const levels = (findings: Awaited<ReturnType<typeof examine>>): Record<string, string> =>
  Object.fromEntries(findings.map(({ check, level }) => [check, level]))

describe('versions', () => {
  test.each([
    ['3.4.23', true],
    ['3.4.30', true],
    ['3.4.31', false],
    ['3.5.0', true],
    ['3.5.12', true],
    ['3.5.13', false],
    ['3.5.16', false],
    ['3.6.0', false],
    ['3.3.25', true],
    ['4.0.0', false],
    ['who knows', null],
  ])('%s: %s', (version, fault) => {
    expect(hasLeaseFault(version)).toBe(fault)
  })
})

describe('what is made of what members say', () => {
  const status = StatusResponse.decode(StatusResponse.encode({ version: '3.5.20', leader: 5n }))

  test('all is well', () => {
    const findings = checkMember({ endpoint: 'h:1', status }, true)
    expect(findings.map(({ level }) => level)).toEqual(['ok'])
  })

  test('no leader, a learner, a strange version and nobody', () => {
    const odd = checkMember(
      { endpoint: 'h:1', status: { ...status, leader: 0n, isLearner: true, version: '\u001b[31m' } },
      false,
    )
    expect(odd.map(({ level, check }) => `${check} ${level}`)).toEqual([
      'version note',
      'leader danger',
      'member warning',
    ])
    expect(JSON.stringify(odd)).not.toContain('31m')
    expect(checkMember({ endpoint: 'h:1', status: null }, false)[0]).toMatchObject({
      level: 'warning',
      check: 'member',
    })
  })

  test('alarms and the number of members', () => {
    const members = (voters: number) => ({ voters, learners: 0 })
    expect(levels(checkCluster({ members: members(3), alarms: [] }))).toEqual({ members: 'ok', alarms: 'ok' })
    expect(levels(checkCluster({ members: members(1), alarms: [1] }))).toEqual({
      members: 'note',
      alarms: 'danger',
    })
    expect(levels(checkCluster({ members: members(2), alarms: [2] }))).toEqual({
      members: 'note',
      alarms: 'danger',
    })
  })

  test('the way there', () => {
    const levelOf = (url: string): unknown => checkTransport(parseEtcdUrl(url))[0]?.level
    expect(levelOf('etcds://far')).toBe('ok')
    expect(levelOf('etcd://127.0.0.1')).toBe('ok')
    expect(levelOf('etcd://far')).toBe('note')
    expect(levelOf('etcd://me:you@far')).toBe('warning')
  })
})

describe.skipIf(missing.length > 0)(
  titled('on servers', missing.length > 0 ? missingReason(missing) : null),
  () => {
    async function started(starting: Promise<EtcdServer>): Promise<EtcdServer> {
      const server = await starting
      onTestFinished(() => server.dispose())
      return server
    }

    test('a plain server, and nothing is left behind', async () => {
      const server = await started(startEtcd())
      const findings = levels(await examine(server.url))
      const version = (await server.request('/v3/maintenance/status')).version
      const expected = hasLeaseFault(version) ? 'warning' : 'ok'
      expect(findings).toEqual({
        transport: 'ok',
        version: expected,
        members: 'note',
        alarms: 'ok',
        rights: 'ok',
        latency: 'ok',
      })
      expect(await server.keys('')).toEqual([])
      expect(await server.leases()).toEqual([])
      expect(await rejection(examine('etcd://127.0.0.1:1'))).toBeInstanceOf(BackendUnavailableError)
    })

    /** Its file grows by doubling, so once it is beyond the quota there is room for nothing at all. */
    async function startedFull(): Promise<EtcdServer> {
      const server = await started(startEtcd({ args: ['--quota-backend-bytes', '100000'] }))
      const value = Buffer.alloc(1_000, 'x').toString('base64')
      const write = () => server.request('/v3/kv/put', { key: 'YQ==', value })
      while ((await write().catch(() => null)) !== null);
      const alarms = () => etcdctl(server, 'alarm', 'list')
      await vi.waitFor(async () => expect(await alarms()).toContain('NOSPACE'), TIMEOUT_MS)
      return server
    }

    test('a server without space that has not raised the alarm yet is told from one that is well', async () => {
      const server = await startedFull()
      await etcdctl(server, 'alarm', 'disarm')
      const findings = await examine(server.url)
      expect(findings.find(({ check }) => check === 'alarms')).toMatchObject({ level: 'danger' })
      expect(findings.find(({ check }) => check === 'rights')).toBeUndefined()
    })

    test('a server without space refuses locks in words, and the doctor says why', async () => {
      const server = await startedFull()
      const findings = await examine(server.url)
      expect(findings.find(({ check }) => check === 'alarms')).toMatchObject({ level: 'danger' })
      const locks = await locksAt(server.url)
      const error = await rejection(locks.mutex('a').tryAcquire())
      expect(error).toBeInstanceOf(BackendUnavailableError)
      expect(String(error)).toContain('no space')
    })

    test('a user without the rights is told which', async () => {
      const server = await started(startEtcd())
      await etcdctl(server, 'user', 'add', 'root:top')
      await etcdctl(server, 'user', 'add', 'reader:pass')
      await etcdctl(server, 'role', 'add', 'read')
      await etcdctl(server, 'role', 'grant-permission', 'read', 'read', 'locks/', '--prefix=true')
      await etcdctl(server, 'user', 'grant-role', 'reader', 'read')
      await etcdctl(server, 'user', 'grant-role', 'root', 'root')
      await etcdctl(server, 'auth', 'enable')
      const findings = await examine(`etcd://reader:pass@127.0.0.1:${server.port}/locks`)
      expect(findings.find(({ check }) => check === 'rights')).toMatchObject({ level: 'danger' })
      expect(findings.find(({ check }) => check === 'rights')?.found).toContain('writing is refused')
      expect(levels(await examine(`etcd://root:top@127.0.0.1:${server.port}`))['rights']).toBe('ok')
    })

    test('a cluster of which one is down', async () => {
      const cluster = await startEtcdCluster()
      onTestFinished(() => cluster.dispose())
      await cluster.members[2]?.kill()
      await cluster.settled()
      const findings = await examine(cluster.url)
      expect(findings.find(({ check }) => check === 'members')).toMatchObject({
        level: 'ok',
        found: '3 voting members',
      })
      const down = findings.filter(({ check }) => check === 'member')
      expect(down).toHaveLength(1)
      expect(down[0]).toMatchObject({
        level: 'warning',
        found: `nobody answers at 127.0.0.1:${cluster.members[2]?.port}`,
      })
    })

    test('a version with the fault is warned of once, unless that is turned off', async () => {
      const server = await started(startEtcd())
      const { version } = await server.request('/v3/maintenance/status')
      // In a process of its own, because other test files of this one may have caused the warning before.
      const script = `
        import { connect } from 'holdfast'
        let warnings = 0
        process.on('warning', ({ code }) => { if (code === 'HOLDFAST_ETCD_LEASE_BUG') warnings += 1 })
        const counts = []
        for (const options of ['?versionWarning=false', '', '']) {
          await (await connect('${server.url}' + options)).close()
          await new Promise(setImmediate)
          counts.push(warnings)
        }
        console.log(JSON.stringify(counts))`
      const run = promisify(execFile)
      const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], {
        cwd: import.meta.dirname,
      })
      const once = hasLeaseFault(version) ? 1 : 0
      expect(JSON.parse(stdout)).toEqual([0, once, once])
    })
  },
)
