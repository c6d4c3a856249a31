import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { Bench, requireBuild } from './command.js'

const RIGHT_TO_LEFT = '\u{202e}'

let bench: Bench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new Bench()
})
afterEach(async () => {
  await bench.clear()
})

async function waitInLine(name: string): Promise<void> {
  const before = (await bench.inspect(name)).waiters.length
  bench.startUnder([name, '--wait', 'forever'], '')
  await until('it stands in line', async () => (await bench.inspect(name)).waiters.length === before + 1)
}

describe('ls', () => {
  test('lists what is held, as a table and as JSON', async () => {
    expect(await bench.holdfast(['ls'])).toMatchObject({ exitCode: 0, stdout: '' })
    expect((await bench.holdfast(['ls', '--json'])).stdout).toBe('[]\n')
    const holder = await bench.hold('deploy:shop')
    await bench.hold('pool', '--limit', '3')
    await waitInLine('deploy:shop')
    const { stdout } = await bench.holdfast(['ls'])
    const [headings, first, second] = stdout.split('\n')
    expect(headings).toMatch(/^NAME +KIND +HOLDERS +WAITERS +FIRST HOLDER +AGE +LEFT$/)
    expect(first).toMatch(/^deploy:shop +mutex +1 +1 +\S+:\d+ +\S+ +\S+$/)
    expect(first).toContain(`:${holder.process.pid}`)
    expect(second).toMatch(/^pool +semaphore of 3 +1 +0 /)
    const listed = JSON.parse((await bench.holdfast(['ls', 'deploy:', '--json'])).stdout)
    expect(listed).toMatchObject([
      { resource: 'deploy:shop', holders: [{ owner: { pid: holder.process.pid } }] },
    ])
    expect(listed[0].holders[0].fence).toMatch(/^\d+$/)
  })

  test('ends quietly when its reader goes away', async () => {
    await bench.hold('a')
    const main = join(import.meta.dirname, '..', 'dist', 'main.js')
    const child = spawn(process.execPath, [main, 'show', 'a', '--watch', '100ms', '--json'], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, HOLDFAST_URL: bench.url },
    })
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    const ended = new Promise((resolve) => {
      child.once('close', resolve)
    })
    await new Promise((resolve) => {
      child.stdout.once('data', resolve)
    })
    child.stdout.destroy()
    // The next change is written to nobody.
    await bench.holdfast(['break', 'a', '--reason', 'test'])
    expect(await ended).toBe(0)
    expect(stderr).toBe('')
  })
})

describe('show', () => {
  test('a free lock is free', async () => {
    const { exitCode, stdout } = await bench.holdfast(['show', 'a'])
    expect(exitCode).toBe(0)
    expect(stdout).toBe('"a" is free: nobody holds it or waits for it.\n')
  })

  test('holders and waiters come in order, with fences that grow', async () => {
    await bench.hold('a', '--note', 'first')
    await waitInLine('a')
    await waitInLine('a')
    const { stdout } = await bench.holdfast(['show', 'a'])
    expect(stdout).toMatch(
      /^"a" {2}mutex, 1 holder, 2 waiters\n\nPLACE .*\nholds .* first\nwaits 1 .*\nwaits 2 .*\n$/,
    )
    const { holders, waiters } = await bench.inspect('a')
    const fences = [...holders, ...waiters].map((claim) => BigInt(claim.fence ?? 0))
    expect(fences).toHaveLength(3)
    expect(fences).toEqual([...fences].sort((a, b) => (a < b ? -1 : 1)))
  })

  test('the default note is the name of the command, without its arguments', async () => {
    bench.start(['run', 'a', '--', process.execPath, '-e', 'setInterval(() => {}, 1_000)', 'a-secret'])
    await until('it is held', async () => (await bench.inspect('a')).holders.length === 1)
    const { stdout } = await bench.holdfast(['show', 'a'])
    expect(stdout).toContain('node')
    expect(stdout).not.toContain('secret')
  })

  test('text that would fool the reader is neutralised everywhere', async () => {
    const name = `pay${RIGHT_TO_LEFT}lla`
    await bench.hold(name, '--note', `note${RIGHT_TO_LEFT}eton`)
    const outputs = [
      await bench.holdfast(['ls']),
      await bench.holdfast(['ls', '--json']),
      await bench.holdfast(['show', name]),
      await bench.holdfast(['show', name, '--json']),
      await bench.startUnder([name, '--wait', '0s'], '').ended,
      await bench.startUnder([name, '--limit', '4'], '').ended,
      await bench.holdfast(['break', name, '--reason', `why${RIGHT_TO_LEFT}yhw`]),
    ]
    for (const { stdout, stderr } of outputs) {
      expect(stdout + stderr).not.toContain(RIGHT_TO_LEFT)
      expect(stdout + stderr).toMatch(/202e/)
    }
    expect(JSON.parse(outputs[3]?.stdout ?? '')).toMatchObject({ resource: name })
  })

  test('--watch in a pipe prints a block for each change', async () => {
    const holder = await bench.hold('a')
    const watching = bench.start(['show', 'a', '--watch', '100ms'])
    await watching.prints('1 holder, 0 waiters')
    await waitInLine('a')
    await watching.prints('1 holder, 1 waiter\n')
    holder.process.kill('SIGTERM')
    await watching.prints('is free')
    watching.process.kill('SIGINT')
    const { exitCode, stdout } = await watching.ended
    expect(exitCode).toBe(130)
    expect(stdout).not.toContain('\u{1b}')
    expect(stdout.match(/1 holder, 1 waiter\n/g)).toHaveLength(1)
  })
})

describe('show --watch', () => {
  test.each([
    ['the name', ['--watch', 'deploy:shop']],
    ['an interval and the name', ['--watch', '100ms', 'deploy:shop']],
    ['the end of the options and the name', ['--watch', '--', 'deploy:shop']],
  ])('takes %s behind it', async (_what, args) => {
    await bench.hold('deploy:shop')
    const watching = bench.start(['show', ...args])
    await watching.prints('"deploy:shop"  mutex, 1 holder, 0 waiters')
    watching.process.kill('SIGINT')
    expect(await watching.ended).toMatchObject({ exitCode: 130, stderr: '' })
  })
})

describe('break', () => {
  test('says what it did, and the next in line has a higher fence', async () => {
    await bench.hold('a', '--note', 'stuck')
    await waitInLine('a')
    const before = await bench.inspect('a')
    const { exitCode, stdout } = await bench.holdfast(['break', 'a', '--reason', 'host is gone'])
    expect(exitCode).toBe(0)
    const fence = String(before.holders[0]?.fence)
    expect(stdout).toMatch(/^Evicted holder \S+:\d+ \(stuck\), ref [0-9a-f]+, fence \d+, in line for \S+\n/)
    expect(stdout).toContain(`fence ${fence},`)
    expect(stdout).toContain('Reason: host is gone\n')
    expect(stdout).toContain(`The next holder has a higher fence than ${fence}.\n`)
    expect(BigInt(before.waiters[0]?.fence ?? 0)).toBeGreaterThan(BigInt(fence))
  })

  test('is 1 where there is nothing to evict', async () => {
    expect(await bench.holdfast(['break', 'a', '--reason', 'test'])).toMatchObject({
      exitCode: 1,
      stdout: '',
      stderr: 'holdfast: "a" is not held, so nothing was evicted\n',
    })
    await bench.hold('a')
    expect((await bench.holdfast(['break', 'a', '--ref', 'nonsense', '--reason', 'test'])).exitCode).toBe(1)
    expect((await bench.inspect('a')).holders).toHaveLength(1)
  })

  test('--ref evicts one claim and leaves the others', async () => {
    await bench.hold('a')
    await waitInLine('a')
    const ref = (await bench.inspect('a')).waiters[0]?.ref ?? ''
    const { exitCode, stdout } = await bench.holdfast(['break', 'a', '--ref', ref, '--reason', 'test'])
    expect(exitCode).toBe(0)
    expect(stdout).toContain('Evicted waiter')
    expect(stdout).toContain('The holders keep the lock.')
    expect((await bench.inspect('a')).holders).toHaveLength(1)
  })

  test('needs a reason', async () => {
    for (const args of [
      ['break', 'a'],
      ['break', 'a', '--reason', ' '],
    ]) {
      const { exitCode, stderr } = await bench.holdfast(args)
      expect(exitCode).toBe(64)
      expect(stderr).toContain('--reason')
    }
  })
})
