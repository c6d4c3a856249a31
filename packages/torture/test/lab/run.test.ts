import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startRedis, storeFor } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import type { LabCase } from '../../src/lab/case.js'
import { caseNamed } from '../../src/lab/cases/index.js'
import { herdViolations } from '../../src/lab/herd.js'
import { judge } from '../../src/lab/judge.js'
import { runCase, runContender } from '../../src/lab/run.js'
import { runCases } from '../../src/lab/run-many.js'
import { isGood, rowOf } from '../../src/lab/table.js'

const signal = new AbortController().signal

const outcome = await storeFor('redis')
if (outcome.kind === 'ready') await outcome.store.dispose()
const withRedis = describe.skipIf(outcome.kind === 'not run')

// What a run leaves behind can only be seen in a folder that nobody else uses.
const before = process.env['TMPDIR']
const folder = mkdtempSync(join(tmpdir(), 'holdfast-lab-test-'))
beforeAll(() => {
  process.env['TMPDIR'] = folder
})
afterAll(() => {
  if (before === undefined) delete process.env['TMPDIR']
  else process.env['TMPDIR'] = before
  rmSync(folder, { recursive: true, force: true })
})

withRedis(titled('a case', outcome.kind === 'not run' ? outcome.reason : null), () => {
  test('catches the broken one with what it expects, lets ours pass, and leaves nothing behind', async () => {
    const result = await runCase(caseNamed('del-without-owner-check'), signal)
    expect(rowOf(result)).toMatchObject({ broken: 'caught: overlap', ours: 'passes', verdict: 'ok' })
    expect(isGood(result)).toBe(true)
    if (result.kind !== 'ran') throw new Error('It did not run.')
    expect(result.broken.timeline.join('\n')).toMatch(/ms {2}A {2}HOLDS the lock\n/)
    expect(readdirSync(folder)).toEqual([])
  })

  test('does not pass if ours is as broken as the other one', async () => {
    const good = caseNamed('del-without-owner-check')
    const result = await runCase({ ...good, name: 'both-broken' }, signal)
    // The actors do not know the name, so the schedule breaks off, which must not look like a pass either.
    expect(result).toMatchObject({ kind: 'failed', contender: 'broken' })
    expect(isGood(result)).toBe(false)
    const { history } = await runContender(good, 'broken', signal)
    expect(judge(good, 'ours', history, new Map()).valid).toBe(false)
  })

  test('is cut short by its signal, and puts everything away', async () => {
    const cut = new AbortController()
    const running = runCases([caseNamed('no-renewal')], { signal: cut.signal, sideBySide: 2 })
    setTimeout(() => cut.abort(new Error('enough')), 1_000)
    await expect(running).rejects.toThrow('enough')
    expect(readdirSync(folder)).toEqual([])
  })

  test('is not run without its store, and fails where the store must be there', async () => {
    const missing: LabCase = {
      ...caseNamed('no-renewal'),
      setUp: async (scene) => {
        const { StoreNotHere } = await import('../../src/lab/scene.js')
        scene.own(await startRedis())
        throw new StoreNotHere('redis-server is not installed')
      },
    }
    const { HOLDFAST_REQUIRE_STORES: required } = process.env
    try {
      process.env['HOLDFAST_REQUIRE_STORES'] = ''
      expect(await runCase(missing, signal)).toMatchObject({ kind: 'not run' })
      process.env['HOLDFAST_REQUIRE_STORES'] = 'redis'
      expect(await runCase(missing, signal)).toMatchObject({ kind: 'failed' })
    } finally {
      if (required === undefined) delete process.env['HOLDFAST_REQUIRE_STORES']
      else process.env['HOLDFAST_REQUIRE_STORES'] = required
    }
  })
})

describe('the judge of herds', () => {
  const facts = (requests: number): ReadonlyMap<string, number> =>
    new Map([
      ['requests while nothing changed', requests],
      ['milliseconds', 2_000],
      ['waiters', 10],
    ])

  test('goes by requests per waiter and second', () => {
    expect(herdViolations(facts(100), 5)).toEqual([])
    expect(herdViolations(facts(101), 5)).toMatchObject([{ kind: 'herd' }])
  })

  test('does not take a schedule that counted nothing for one that found nothing', () => {
    expect(herdViolations(new Map(), 5)).toMatchObject([{ kind: 'herd' }])
  })
})
