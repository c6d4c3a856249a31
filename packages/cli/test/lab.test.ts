import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { storeFor } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { titled } from '../../../test/support/titled.js'
import { Bench, requireBuild } from './command.js'

let bench: Bench
beforeAll(() => {
  requireBuild()
  bench = new Bench()
})
afterAll(async () => {
  await bench.clear()
})

const outcome = await storeFor('redis')
if (outcome.kind === 'ready') await outcome.store.dispose()

describe('lab list', () => {
  test('shows every case, as a table and as data', async () => {
    const table = await bench.holdfast(['lab', 'list'])
    expect(table).toMatchObject({ exitCode: 0, stderr: '' })
    expect(table.stdout).toMatch(
      /^CASE +STORE +FOUND +WHAT IS BROKEN\nsetnx-then-expire +redis +stuck-waiter /,
    )
    const data = await bench.holdfast(['lab', 'list', '--json'])
    const cases = JSON.parse(data.stdout) as { readonly name: string }[]
    expect(cases).toHaveLength(table.stdout.trim().split('\n').length - 1)
    for (const { name } of cases) expect(table.stdout).toContain(name)
  })
})

describe('lab run', () => {
  test.each([
    [['lab', 'run'], /which case\?/],
    [['lab', 'run', 'no-such\u{1b}[31m'], /there is no case "no-such/],
    [['lab', 'run', '--all', 'no-renewal'], /--all cannot be used with names/],
    [['lab', 'run', '--side-by-side', '0', '--all'], /whole number from 1/],
    [['lab', 'rum'], /unknown command 'rum' \(Did you mean run\?\)/],
  ])('%j is 64 and one clear line', async (args, message) => {
    const { exitCode, stdout, stderr } = await bench.holdfast(args)
    expect(stderr).toMatch(/^holdfast: [^\n]*\n$/)
    expect(stderr).toMatch(message)
    expect(stderr).not.toContain('\u{1b}')
    expect(stdout).toBe('')
    expect(exitCode).toBe(64)
  })

  test.skipIf(outcome.kind === 'not run')(
    titled(
      'tells the story, what happened, and what was found',
      outcome.kind === 'not run' ? outcome.reason : null,
    ),
    async () => {
      const report = join(bench.folder, 'lab.html')
      const ended = await bench.holdfast(['lab', 'run', 'setnx-then-expire', '--report', report])
      expect(ended).toMatchObject({ exitCode: 0, stderr: '' })
      expect(ended.stdout).toMatch(
        /^setnx-then-expire: SETNX, and EXPIRE in the next command\n\n {2}The oldest/,
      )
      expect(ended.stdout).toMatch(/A is killed between SETNX and EXPIRE\n/)
      expect(ended.stdout).toMatch(/\n {2}stuck-waiter: [^\n]+\n(?: {2}[^\n]+\n)*? {2}CAUGHT: stuck-waiter\n/)
      expect(ended.stdout).toMatch(/\nOurs, with the same schedule\n[^]+\n {2}PASSES\n/)
      expect(existsSync(report)).toBe(true)
      expect(readFileSync(report, 'utf8')).toContain('setnx-then-expire')
    },
  )

  test.skipIf(outcome.kind === 'not run')(
    titled('gives the verdicts as data', outcome.kind === 'not run' ? outcome.reason : null),
    async () => {
      const { exitCode, stdout, stderr } = await bench.holdfast([
        'lab',
        'run',
        '--json',
        'getset-client-clocks',
      ])
      expect(JSON.parse(stdout)).toMatchObject([
        {
          name: 'getset-client-clocks',
          kind: 'ran',
          caught: true,
          passed: true,
          broken: { verdict: { valid: false } },
          ours: { verdict: { valid: true, violations: [] } },
        },
      ])
      expect(stderr).toMatch(/^holdfast: getset-client-clocks: ok [^\n]*\n$/)
      expect(exitCode).toBe(0)
    },
  )

  test('is 69 if none of the cases can be run here', async () => {
    const env = { PATH: bench.folder, HOLDFAST_REQUIRE_STORES: '' }
    const ended = await bench.holdfast(['lab', 'run', 'no-renewal'], env)
    expect(ended.stdout).toMatch(/\nNot run: /)
    expect(ended.exitCode).toBe(69)
    const required = await bench.holdfast(['lab', 'run', 'no-renewal'], {
      ...env,
      HOLDFAST_REQUIRE_STORES: 'redis',
    })
    expect(required.stdout).toMatch(/\nFAILED: /)
    expect(required.exitCode).toBe(1)
  })
})
