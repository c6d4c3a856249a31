import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { CpuMeter, kindOf, ProcessTable, parseStat } from '../../tools/test/cpu.mjs'

const node = '/usr/bin/node'

describe('the line of a process', () => {
  it('is parsed, also with parentheses and spaces in the name', () => {
    const text = '42 (a (b) c) S 7 8 9 0 -1 4194560 1 2 3 4 10 20 300 400 20 0 1 0 12345 0 0\n'
    expect(parseStat(text)).toEqual({
      pid: 42,
      name: 'a (b) c',
      parent: 7,
      group: 8,
      session: 9,
      ownTicks: 30,
      waitedTicks: 700,
      startedAt: '12345',
    })
  })
})

describe('the kind of a process', () => {
  it.each<[string, string[]]>([
    [
      'vitest workers',
      [
        node,
        '--require',
        '/r/vitest/x.cjs',
        '--conditions',
        'node',
        '/r/node_modules/vitest/dist/workers/forks.js',
      ],
    ],
    ['vitest main', [node, '/r/node_modules/vitest/vitest.mjs', 'run']],
    ['vitest main', ['node', '/r/node_modules/.bin/vitest', 'run']],
    ['chromium', ['/opt/chrome-linux/chrome', '--type=renderer']],
    ['chromium', ['/opt/chrome-linux/headless_shell']],
    ['redis-server', ['redis-server 127.0.0.1:6379']],
    ['redis sentinel', ['/usr/bin/redis-server 127.0.0.1:26379 [sentinel]']],
    ['redis sentinel', ['redis-server', '/tmp/s.conf', '--sentinel']],
    ['postgres', ['/usr/local/bin/postgres', '-D', '/tmp/data']],
    ['postgres', ['postgres: autovacuum launcher']],
    ['postgres', ['/usr/local/bin/initdb', '-D', '/tmp/data']],
    ['mysqld', ['/c/ld-linux-x86-64.so.2', '--library-path', '/c/lib', '/c/usr/sbin/mysqld', '--port=1']],
    ['mariadbd', ['/usr/sbin/mariadbd', '--no-defaults']],
    ['java (ZooKeeper)', ['java', '-Dzookeeper.cnxTimeout=2000', 'x.QuorumPeerMain']],
    ['java (other)', ['/usr/bin/java', '-jar', 'curator.jar']],
    ['etcd', ['/usr/bin/etcd', '--name', 'a']],
    ['consul', ['/opt/consul', 'agent']],
    ['memcached', ['memcached', '-p', '1']],
    ['torture workers', [node, '/r/packages/torture/dist/workers/fenced-counter.js', 'mysql://x']],
    ['node holdfast: buyer.mjs', [node, '--import', 'tsx', '/r/packages/holdfast/test/dedupe/buyer.mjs']],
    ['node worker.mjs', [node, '/tmp/worker.mjs', 'packages/x/y.js']],
    ['node -e', [node, '-e', 'for (;;);']],
    ['test runner', [node, 'tools/test/run.mjs', 'full']],
    ['build', ['npm run build']],
    ['build', [node, '/r/node_modules/.bin/tsdown']],
    ['other: sh', ['/bin/sh', '-c', 'trap']],
    ['other: kworker', []],
  ])('is %s for %j', (kind, command) => {
    expect(kindOf(command, 'kworker')).toBe(kind)
  })
})

interface Planted {
  readonly pid: number
  readonly parent: number
  readonly own?: number
  readonly waited?: number
  readonly group?: number
  readonly command?: string
}

/** A sample of the processes of a machine. A process starts at the time of its pid. */
function sample(...processes: readonly Planted[]) {
  return processes.map(({ pid, parent, own = 0, waited = 0, group = 1, command = 'etcd' }) => ({
    stat: {
      pid,
      name: 'x',
      parent,
      group,
      session: 1,
      ownTicks: own,
      waitedTicks: waited,
      startedAt: String(pid),
    },
    command: () => [command],
  }))
}

const root = { pid: 10, parent: 1 }

describe('the processes of a run', () => {
  it('are the descendants of the root, also after their parents have ended', () => {
    const table = new ProcessTable(10)
    const other = { pid: 5, parent: 1, own: 1_000 }
    table.update(sample({ pid: 12, parent: 11, own: 1 }, { pid: 11, parent: 10, own: 1 }, root, other))
    // 11 has ended, so init is the parent of 12 now.
    table.update(sample(root, { pid: 12, parent: 1, own: 5 }, { pid: 13, parent: 12, own: 2 }, other))
    table.update(sample(root, { pid: 14, parent: 1, own: 500 }, other))
    expect(table.report()).toEqual({
      totalMs: 80,
      kinds: [
        { kind: 'etcd', processes: 3, ms: 80 },
        { kind: 'test runner', processes: 1, ms: 0 },
      ],
    })
  })

  it('include a process whose parent has ended if its group belongs to the run', () => {
    const table = new ProcessTable(10)
    table.update(sample(root, { pid: 11, parent: 10, group: 11 }))
    table.update(sample(root, { pid: 11, parent: 10, group: 11 }, { pid: 13, parent: 1, group: 11, own: 4 }))
    // The group of the root holds processes of the shell that started it.
    table.update(sample(root, { pid: 14, parent: 1, group: 10, own: 100 }))
    expect(table.totalMs).toBe(40)
  })

  it('get the kind of the program that they execute after the fork', () => {
    const table = new ProcessTable(10)
    table.update(sample(root, { pid: 11, parent: 10, command: 'node' }))
    table.update(sample(root, { pid: 11, parent: 10, own: 3, command: 'memcached' }))
    expect(table.report().kinds[0]).toEqual({ kind: 'memcached', processes: 1, ms: 30 })
  })

  it('add up to what the root has waited for, with a row for those that no sample has seen', () => {
    const table = new ProcessTable(10)
    table.update(sample({ ...root, own: 1, waited: 100 }, { pid: 11, parent: 10, own: 41 }))
    expect(table.report()).toEqual({
      totalMs: 1_010,
      kinds: [
        { kind: 'processes shorter than the sampling', processes: 0, ms: 590 },
        { kind: 'etcd', processes: 1, ms: 410 },
        { kind: 'test runner', processes: 1, ms: 10 },
      ],
    })
  })
})

describe('the meter', () => {
  it('measures a child that computes (does not apply without /proc)', {
    skip: !existsSync('/proc/self/stat'),
  }, async () => {
    const meter = new CpuMeter()
    meter.start()
    const before = meter.totalMs() ?? 0
    const script =
      'let sum = 0; while (process.cpuUsage().user < 200_000) for (let i = 0; i < 1e6; i += 1) sum += i'
    const child = spawn(process.execPath, ['-e', script])
    await new Promise((resolve) => child.once('exit', resolve))
    expect((meter.totalMs() ?? 0) - before).toBeGreaterThanOrEqual(150)
    expect(meter.stop()?.totalMs).toBeGreaterThanOrEqual(150)
  })
})
