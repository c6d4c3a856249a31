import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Bench, requireBuild } from './command.js'

let bench: Bench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new Bench()
})
afterEach(async () => {
  await bench.clear()
})

const STUBBORN = `process.on('SIGTERM', () => console.log('ignored SIGTERM'))`
const STAY = `setInterval(() => {}, 1_000)`

describe('a lock that is lost', () => {
  test('stops the command with SIGTERM and exits with 79', async () => {
    const polite = `process.on('SIGTERM', () => { console.log('got SIGTERM'); process.exit(0) })`
    const running = bench.startUnder(['a', '--ttl', '2s'], `${polite}; ${STAY}; console.log('held')`)
    await running.prints('held')
    expect((await bench.holdfast(['break', 'a', '--reason', 'test'])).exitCode).toBe(0)
    const { exitCode, stdout, stderr } = await running.ended
    expect(exitCode).toBe(79)
    expect(stdout).toBe('held\ngot SIGTERM\n')
    expect(stderr).toMatch(/^holdfast: the lock "a" was lost \(evicted\): .*; stopping the command\n$/)
  })

  test('kills a command that does not stop, and all that it started', async () => {
    const helper = JSON.stringify(`${STUBBORN}; ${STAY}; console.log('helper started')`)
    const spawn = `require('node:child_process').spawn`
    const startHelper = `${spawn}(process.execPath, ['-e', ${helper}], { stdio: 'inherit' })`
    const running = bench.startUnder(
      ['a', '--ttl', '2s', '--grace', '1s'],
      `${STUBBORN}; ${STAY}; ${startHelper}`,
    )
    await running.prints('helper started')
    await bench.holdfast(['break', 'a', '--reason', 'test'])
    // The output ends when nobody has it open any more, so a helper that lived on would keep this waiting.
    const { exitCode, stdout } = await running.ended
    expect(exitCode).toBe(79)
    expect(stdout.match(/ignored SIGTERM/g)).toHaveLength(2)
  })

  test('is noticed at the latest when the command ends', async () => {
    // With this ttl the next renewal is minutes away, so only the release can find out.
    const running = bench.startUnder(
      ['a', '--ttl', '20m'],
      `process.on('SIGTERM', () => process.exit(0)); ${STAY}; console.log('held')`,
    )
    await running.prints('held')
    await bench.holdfast(['break', 'a', '--reason', 'test'])
    running.process.kill('SIGTERM')
    const { exitCode, stderr } = await running.ended
    expect(exitCode).toBe(79)
    expect(stderr).toContain('may have run unprotected')
  })
})
