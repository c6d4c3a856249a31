/** Deadlocks of real processes as the command shows them. */

import { type Deadlock } from 'holdfast'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { titled } from '../../../test/support/titled.js'
import { until } from '../../../test/support/wait.js'
import { Bench, type Ended, type Running, requireBuild } from './command.js'

const redis = await sharedStoreFor('redis')
if (redis.kind === 'ready') afterAll(() => redis.store.dispose())

let bench: Bench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new Bench()
})
afterEach(async () => {
  await bench.clear()
})

/** `holdfast run OUTER -- holdfast run INNER -- ...`, where the inner one starts once the file is there. */
function nested(outer: string, inner: string, ...options: readonly string[]): Running {
  const script = `
    const { existsSync } = require('node:fs')
    const { spawn } = require('node:child_process')
    console.log('holds ' + process.argv[1])
    const timer = setInterval(() => {
      if (!existsSync(process.argv[2])) return
      clearInterval(timer)
      spawn(process.execPath, process.argv.slice(3), { stdio: 'inherit' })
        .on('exit', (code) => { process.exitCode = code })
    }, 50)`
  const main = new URL('../dist/main.js', import.meta.url).pathname
  const within = [
    main,
    'run',
    inner,
    '--wait',
    'forever',
    ...options,
    '--',
    process.execPath,
    '-e',
    'console.log("both")',
  ]
  return bench.start([
    'run',
    outer,
    ...options,
    '--',
    process.execPath,
    '-e',
    script,
    outer,
    gate(outer),
    ...within,
  ])
}

const gate = (name: string): string => `${bench.folder}/go-${name}`

async function open(name: string): Promise<void> {
  const { writeFile } = await import('node:fs/promises')
  await writeFile(gate(name), '')
}

async function waits(name: string): Promise<void> {
  await until(`somebody waits for ${name}`, async () => (await bench.inspect(name)).waiters.length > 0)
}

async function inDeadlock(...options: readonly string[]): Promise<readonly [Running, Running]> {
  const pair = [nested('a', 'b', ...options), nested('b', 'a', ...options)] as const
  await Promise.all([pair[0].prints('holds a'), pair[1].prints('holds b')])
  await open('a')
  await waits('b')
  await open('b')
  if (options.length === 0) await waits('a')
  return pair
}

describe('two processes that wait for each other', () => {
  test('are shown by show, ls and ls --deadlocks, as text and as JSON', async () => {
    expect(await bench.holdfast(['ls', '--deadlocks'])).toMatchObject({ exitCode: 0, stdout: '' })
    await inDeadlock()
    const commands = [
      ['show', 'a'],
      ['ls'],
      ['ls', '--deadlocks'],
      ['ls', '--deadlocks', '--json'],
      ['show', 'b', '--json'],
    ]
    const all = await Promise.all(commands.map((args) => bench.holdfast(args)))
    const [shown, listed, only, json, object] = all as [Ended, Ended, Ended, Ended, Ended]
    const words =
      /^deadlock: process \d+ on \S+ waits for "a", held by process \d+ on \S+, inside which process \d+ on \S+ waits for "b", held by process \d+ on \S+$/m
    for (const { stdout } of [shown, listed, only]) expect(stdout).toMatch(words)
    expect(listed.stdout).toMatch(/^NAME/)
    expect([shown.exitCode, listed.exitCode, only.exitCode, json.exitCode]).toEqual([0, 0, 80, 80])
    const [deadlock] = JSON.parse(json.stdout) as Deadlock[]
    expect(deadlock).toMatchObject({ certain: true, cycle: [{ waitsFor: 'a' }, { waitsFor: 'b' }] })
    expect(JSON.parse(object.stdout)).toMatchObject({ resource: 'b', deadlocks: [{ certain: true }] })
    const one = await bench.holdfast(['ls', 'nothing-like-it', '--deadlocks'])
    expect(one).toMatchObject({ exitCode: 0, stdout: '' })
  })

  test('go on, but for the youngest, with --detect-deadlocks', async () => {
    const [one, two] = await inDeadlock('--detect-deadlocks')
    const ends = await Promise.all([one.ended, two.ended])
    expect(ends.filter(({ exitCode }) => exitCode === 0)).toHaveLength(1)
    const [failed] = ends.filter(({ exitCode }) => exitCode === 75)
    expect(failed?.stderr).toMatch(/^holdfast: Waiting for "[ab]" would never end: process \d+ on /m)
    expect(ends.map(({ stdout }) => stdout).join('')).toContain('both')
    expect(await bench.holdfast(['ls', '--json'])).toMatchObject({ stdout: '[]\n' })
  })
})

describe.skipIf(redis.kind !== 'ready')(
  titled('a store that does not show who waits', redis.kind === 'ready' ? null : redis.reason),
  () => {
    test('is refused by ls --deadlocks, as by run --detect-deadlocks', async () => {
      if (redis.kind !== 'ready') return
      const env = { HOLDFAST_URL: `${redis.store.url}?recipe=set-nx` }
      const commands = [
        ['ls', '--deadlocks'],
        ['ls', '--deadlocks', '--json', 'a'],
        ['run', 'a', '--detect-deadlocks', '--', process.execPath, '-e', ''],
      ]
      for (const args of commands) {
        const { exitCode, stdout, stderr } = await bench.holdfast(args, env)
        expect(stderr).toMatch(/^holdfast: [Tt]he redis store does not show who waits for what[^\n]*\n$/)
        expect([exitCode, stdout]).toEqual([64, ''])
      }
      expect(await bench.holdfast(['ls', '--json'], env)).toMatchObject({ exitCode: 0, stdout: '[]\n' })
      const line = await bench.holdfast(['ls', '--deadlocks'], { HOLDFAST_URL: redis.store.url })
      expect(line).toMatchObject({ exitCode: 0, stderr: 'holdfast: no deadlocks\n' })
    })
  },
)
