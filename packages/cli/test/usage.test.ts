import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Bench, requireBuild } from './command.js'

let bench: Bench
beforeAll(() => {
  requireBuild()
  bench = new Bench()
})
afterAll(async () => {
  await bench.clear()
})

describe('wrong usage', () => {
  test.each([
    [['run', 'a', '--limt', '3', '--', 'true'], /unknown option '--limt' \(Did you mean --limit\?\)/],
    [['rum'], /unknown command 'rum' \(Did you mean run\?\)/],
    [['run', 'a', 'true'], /the command goes behind "--"/],
    [['run', 'a', 'ls', '-la'], /the command goes behind "--"/],
    [['run', 'a', '--'], /there is no command to run/],
    [['run', 'a'], /there is no command to run/],
    [['run', '--', 'true'], /missing required argument 'name'/],
    [['run', 'a', '--wait', '30', '--', 'true'], /a duration needs a unit: 30ms, 30s, 30m or 30h/],
    [['run', 'a', '--wait', 'soon', '--', 'true'], /expected a duration such as 500ms/],
    [['run', 'a', '--ttl', '1ms', '--', 'true'], /--ttl/],
    [['run', 'a', '--limit', '0', '--', 'true'], /whole number from 1/],
    [['run', 'a', '--limit', '2', '--shared', '--', 'true'], /cannot be used with/],
    [['run', 'a', '--write', '--shared', '--', 'true'], /cannot be used with/],
    [['run', 'a\u{1b}[31m', '--', 'true'], /NAME to be a text without control characters/],
    [['show'], /missing required argument 'name'/],
    [['show', '--watch'], /missing required argument 'name'/],
    [['show', '--watch', '1s'], /missing required argument 'name'/],
    [['show', '--watch', '5'], /a duration needs a unit: 5ms, 5s, 5m or 5h/],
    [['show', '--watch', 'soon', 'a'], /--watch takes a duration such as 500ms.*, and not "soon"/],
    [['show', 'a', '--watch', 'a'], /--watch takes a duration such as 500ms.*, and not "a"/],
    [['demo', '--workers', '1'], /whole number from 2/],
    [['ls', '--url', 'gopher://x'], /url/],
  ])('%j is 64 and one clear line', async (args, message) => {
    const { exitCode, stdout, stderr } = await bench.holdfast(args)
    expect(stderr).toMatch(/^holdfast: [^\n]*\n$/)
    expect(stderr).toMatch(message)
    expect(stderr).not.toContain('\u{1b}')
    expect(stdout).toBe('')
    expect(exitCode).toBe(64)
  })

  test('credentials in a URL are not repeated', async () => {
    const url = 'gopher://anna:s3cret@example.org/0?password=hush'
    for (const args of [
      ['ls', '--url', url],
      ['ls', `--ulr=${url}`],
      ['run', 'a', '--url', url, '--', 'true'],
    ]) {
      const { exitCode, stderr } = await bench.holdfast(args, { HOLDFAST_DEBUG: '1' })
      expect(exitCode).toBe(64)
      expect(stderr).not.toMatch(/s3cret|hush/)
    }
  })

  test('a store that cannot be had is 69, and there is a stack only for those who ask', async () => {
    const url = `sqlite:${join(import.meta.dirname, 'usage.test.ts', 'locks.db')}`
    const short = await bench.holdfast(['ls', '--url', url])
    expect(short.exitCode).toBe(69)
    expect(short.stderr).toMatch(/^holdfast: [^\n]*\n$/)
    const long = await bench.holdfast(['ls'], { HOLDFAST_URL: url, HOLDFAST_DEBUG: '1' })
    expect(long.exitCode).toBe(69)
    expect(long.stderr).toMatch(/\n {4}at /)
  })
})

describe('help', () => {
  test('--version is that of the package', async () => {
    const { exitCode, stdout } = await bench.holdfast(['--version'])
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  })

  test.each(['run', 'ls', 'show', 'break', 'doctor', 'migrate', 'demo', 'check'])(
    '%s explains itself',
    async (command) => {
      const { exitCode, stdout, stderr } = await bench.holdfast([command, '--help'])
      expect(exitCode).toBe(0)
      expect(stderr).toBe('')
      expect(stdout).toContain(`Usage: holdfast ${command}`)
      expect(stdout).toMatch(/Examples:|Exit codes:/)
      expect((await bench.holdfast(['help', command])).stdout).toBe(stdout)
    },
  )

  test('every exit code of run is in its help', async () => {
    const { stdout } = await bench.holdfast(['run', '--help'])
    for (const code of [64, 69, 70, 75, 79, 126, 127, 130])
      expect(stdout).toMatch(new RegExp(`^ {2}${code} `, 'm'))
  })

  test('the help of run says where only the command itself counts', async () => {
    const { stdout } = await bench.holdfast(['run', '--help'])
    expect(stdout).toContain('outside Linux, at a terminal, only the command itself counts (docs/cli.md)')
  })
})
