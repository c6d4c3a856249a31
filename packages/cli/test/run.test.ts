import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { Bench, requireBuild } from './command.js'

const node = process.execPath

let bench: Bench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new Bench()
})
afterEach(async () => {
  await bench.clear()
})

/** Says which signals came, and how often, until it is told to stop by SIGTERM. */
const LISTENER = `
  const seen = []
  for (const name of ['SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2']) {
    process.on(name, () => { seen.push(name); console.log('seen ' + seen.join(' ')) })
  }
  process.on('SIGTERM', () => { console.log('seen ' + [...seen, 'SIGTERM'].join(' ')); process.exit(5) })
  setInterval(() => {}, 1_000)
  console.log('ready')
`

describe('what the command gets and gives', () => {
  test.each([0, 1, 7, 255])('exit code %i passes through', async (code) => {
    const { exitCode, stderr } = await bench.startUnder(['a'], `process.exit(${code})`).ended
    expect(stderr).toBe('')
    expect(exitCode).toBe(code)
  })

  test('death by a signal is 128+n, and the lock is free afterwards', async () => {
    const { exitCode } = await bench.startUnder(['a'], `process.kill(process.pid, 'SIGKILL')`).ended
    expect(exitCode).toBe(137)
    expect((await bench.startUnder(['a', '--wait', '0s'], '').ended).exitCode).toBe(0)
    expect((await bench.inspect('a')).shape).toBeNull()
  })

  test('arguments arrive as they were given, without a shell', async () => {
    const given = ['$HOME', '*', '--wait', '--', 'a b', '']
    const script = 'console.log(JSON.stringify(process.argv.slice(1)))'
    const { stdout } = await bench.startUnder(['a'], script, '--', ...given).ended
    expect(JSON.parse(stdout)).toEqual(given)
  })

  test('the name and a growing fence are in the environment, whatever was there before', async () => {
    const fences: bigint[] = []
    for (let round = 0; round < 3; round += 1) {
      const script = 'console.log(process.env.HOLDFAST_NAME + "\\n" + process.env.HOLDFAST_FENCE)'
      const { stdout } = await bench.holdfast(['run', 'job:1', '--', node, '-e', script], {
        HOLDFAST_NAME: 'outer',
        HOLDFAST_FENCE: '999999999',
      })
      const [name, fence = ''] = stdout.split('\n')
      expect(name).toBe('job:1')
      expect(fence).toMatch(/^\d+$/)
      fences.push(BigInt(fence))
    }
    expect(fences.every((fence, index) => index === 0 || fence > (fences[index - 1] ?? 0n))).toBe(true)
    expect(fences).not.toContain(999999999n)
  })

  test('--url wins over HOLDFAST_URL', async () => {
    await bench.hold('a')
    const elsewhere = `sqlite:${join(bench.folder, 'other.db')}`
    const args = ['run', 'a', '--wait', '0s', '--url', elsewhere, '--', node, '-e', '']
    expect((await bench.holdfast(args)).exitCode).toBe(0)
    expect((await bench.holdfast(['run', 'a', '--wait', '0s', '--', node, '-e', ''])).exitCode).toBe(75)
  })

  test('a store that is named by an empty text is refused, and the default file is not used in its place', async () => {
    const args = ['run', 'a', '--wait', '0s', '--', node, '-e', '']
    const empty = await bench.holdfast(args, { HOLDFAST_URL: '' })
    expect(empty.exitCode).toBe(64)
    expect(empty.stderr).toContain('--url')
    expect((await bench.holdfast(['ls', '--url', ''])).exitCode).toBe(64)
    expect((await bench.holdfast(['doctor'], { HOLDFAST_URL: '' })).exitCode).toBe(64)
  })

  test('a command that is not there is 127, one that cannot be run is 126', async () => {
    const missing = await bench.holdfast(['run', 'a', '--', './no-such-command'])
    expect(missing.exitCode).toBe(127)
    expect(missing.stderr).toBe('holdfast: cannot run "./no-such-command": command not found\n')
    const plain = join(bench.folder, 'plain.txt')
    writeFileSync(plain, 'text')
    expect((await bench.holdfast(['run', 'a', '--', plain])).exitCode).toBe(126)
  })
})

describe('signals', () => {
  test('each reaches the command once, and its own exit code comes back', async () => {
    const running = bench.startUnder(['a'], LISTENER)
    await running.prints('ready')
    const sent: NodeJS.Signals[] = []
    for (const signal of ['SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGTERM'] as const) {
      running.process.kill(signal)
      sent.push(signal)
      await running.prints(`seen ${sent.join(' ')}\n`)
    }
    expect((await running.ended).exitCode).toBe(5)
  })

  test('a command that does not handle SIGTERM ends with 143', async () => {
    const running = await bench.hold('a')
    running.process.kill('SIGTERM')
    expect((await running.ended).exitCode).toBe(143)
  })

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s while waiting leaves the line and exits with %i', async (signal, code) => {
    await bench.hold('a')
    const waiting = bench.startUnder(['a', '--wait', 'forever'], `console.log('ran')`)
    await until('it stands in line', async () => (await bench.inspect('a')).waiters.length === 1)
    waiting.process.kill(signal)
    expect(await waiting.ended).toMatchObject({ exitCode: code, stdout: '', stderr: '' })
    expect((await bench.inspect('a')).waiters).toEqual([])
  })
})

describe('waiting', () => {
  test('a lock that is taken is 75, and the message says by whom', async () => {
    const holder = await bench.hold('a', '--note', 'release 4.2')
    for (const wait of ['0s', '300ms']) {
      const refused = await bench.startUnder(['a', '--wait', wait], `console.log('ran')`).ended
      expect(refused).toMatchObject({ exitCode: 75, stdout: '' })
      expect(refused.stderr).toMatch(/^holdfast: "a" .*:\d+ \(release 4\.2\)\n$/)
      expect(refused.stderr).toContain(`:${holder.process.pid} `)
    }
  })

  test('whoever waits gets it when it is released', async () => {
    const holder = await bench.hold('a')
    const waiting = bench.startUnder(['a', '--wait', 'forever'], `console.log('ran')`)
    await until('it stands in line', async () => (await bench.inspect('a')).waiters.length === 1)
    expect(waiting.stdout).toBe('')
    holder.process.kill('SIGTERM')
    expect(await waiting.ended).toMatchObject({ exitCode: 0, stdout: 'ran\n' })
  })

  test('--limit lets in that many', async () => {
    await bench.hold('pool', '--limit', '2')
    await bench.hold('pool', '--limit', '2')
    const third = await bench.startUnder(['pool', '--limit', '2', '--wait', '0s'], '').ended
    expect(third.exitCode).toBe(75)
    const other = await bench.startUnder(['pool', '--limit', '3', '--wait', '0s'], '').ended
    expect(other.exitCode).toBe(64)
    expect(other.stderr).toContain('semaphore of 2')
  })

  test('--shared lets in readers and keeps --write out', async () => {
    await bench.hold('doc', '--shared')
    await bench.hold('doc', '--shared')
    expect((await bench.startUnder(['doc', '--shared', '--wait', '0s'], '').ended).exitCode).toBe(0)
    expect((await bench.startUnder(['doc', '--write', '--wait', '0s'], '').ended).exitCode).toBe(75)
    const { holders, shape } = await bench.inspect('doc')
    expect(shape?.kind).toBe('read-write')
    expect(holders).toHaveLength(2)
  })

  test('--write keeps everybody out', async () => {
    await bench.hold('doc', '--write')
    expect((await bench.startUnder(['doc', '--shared', '--wait', '0s'], '').ended).exitCode).toBe(75)
    expect((await bench.startUnder(['doc', '--write', '--wait', '0s'], '').ended).exitCode).toBe(75)
  })
})
