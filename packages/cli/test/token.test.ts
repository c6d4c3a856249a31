import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Bench, requireBuild } from './command.js'

const bench = new Bench()
beforeAll(requireBuild)
afterAll(() => bench.clear())

const create = (
  file: string,
  name: string,
  ...more: string[]
): Promise<{ exitCode: number | null; stdout: string; stderr: string }> =>
  bench.holdfast(['token', 'create', '--file', file, '--name', name, ...more])

test('a token is made, shown once, listed without it, and revoked', async () => {
  const file = join(bench.folder, 'auth.json')
  const rights = ['--prefix', 'jobs/', '--prefix', 'cron/', '--can', 'acquire, inspect']
  const made = await create(file, 'ci', ...rights, '--max-ttl', '5m', '--expires', '2099-01-31T00:00:00Z')
  expect([made.exitCode, made.stdout]).toEqual([0, expect.stringMatching(/^hft_[A-Za-z0-9_-]{43}\n$/)])
  expect(made.stderr).toContain('shown this once')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const kept = readFileSync(file, 'utf8')
  expect(kept).not.toContain(made.stdout.trim().slice(4))
  expect(JSON.parse(kept)).toMatchObject({
    tokens: [
      {
        name: 'ci',
        rights: [
          { prefix: 'jobs/', can: ['acquire', 'inspect'] },
          { prefix: 'cron/', can: ['acquire', 'inspect'] },
        ],
        maxTtlMs: 300_000,
        expires: '2099-01-31T00:00:00Z',
      },
    ],
  })

  const again = await create(file, 'ci', '--prefix', '', '--can', 'break')
  expect([again.exitCode, again.stdout]).toEqual([64, ''])
  expect(again.stderr).toContain('already')

  const listed = await bench.holdfast(['token', 'list', '--file', file])
  expect(listed.stdout).toMatch(/NAME .*\nci .*jobs\/.*acquire,inspect.*300000 ms .*2099/)
  expect(listed.stdout).not.toContain(JSON.parse(kept).tokens[0].sha256)

  expect((await bench.holdfast(['token', 'revoke', '--file', file, '--name', 'nobody'])).exitCode).toBe(1)
  expect((await bench.holdfast(['token', 'revoke', '--file', file, '--name', 'ci'])).exitCode).toBe(0)
  const empty = await bench.holdfast(['token', 'list', '--file', file])
  expect([empty.exitCode, empty.stdout]).toEqual([0, ''])
})

test('what cannot work is told, and changes nothing', async () => {
  const file = join(bench.folder, 'broken.json')
  writeFileSync(file, '{"tokens": [{"name": "x", "sha256": "hft_secret", "rights": []}]}')
  const before = readFileSync(file, 'utf8')
  const broken = await create(file, 'ci', '--prefix', '', '--can', 'break')
  expect(broken.exitCode).toBe(64)
  expect(broken.stderr).toMatch(/the auth file: tokens\[0\]/)
  expect(broken.stderr).not.toContain('secret')
  expect(readFileSync(file, 'utf8')).toBe(before)

  const other = join(bench.folder, 'other.json')
  const wrong: [string[], RegExp][] = [
    [['--prefix', '', '--can', 'aquire'], /--can must be one of acquire, inspect, break/],
    [['--prefix', 'a\nb', '--can', 'break'], /--prefix must be/],
    [['--prefix', '', '--can', 'break', '--expires', 'soon'], /--expires must be a time/],
    [['--prefix', '', '--can', 'break', '--max-ttl', 'x'], /--max-ttl/],
    [['--can', 'break'], /--prefix/],
  ]
  const runs = await Promise.all(wrong.map(([args]) => create(other, 'ci', ...args)))
  runs.forEach(({ exitCode, stderr }, index) => {
    expect([exitCode, stderr]).toEqual([64, expect.stringMatching(wrong[index]?.[1] ?? '')])
  })
  const odd = await create(other, 'a b', '--prefix', '', '--can', 'break')
  expect([odd.exitCode, odd.stderr]).toEqual([64, expect.stringMatching(/--name must be/)])
  const nowhere = await create(
    join(bench.folder, 'no/such/folder.json'),
    'ci',
    '--prefix',
    '',
    '--can',
    'break',
  )
  expect([nowhere.exitCode, nowhere.stderr]).toEqual([64, expect.stringMatching(/cannot be used \(ENOENT\)/)])
})
