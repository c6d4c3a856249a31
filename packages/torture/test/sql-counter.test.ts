// @module-tag exclusion
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { atDepth, sizeOf } from '../../../test/support/depth.js'
import { Children } from './children.js'
import { type SqlTarget, sqlTargets } from './sql-recipes.js'

const PROCESSES = atDepth(4, 8)
/** `HOLDFAST_SQL_INCREMENTS` sets how often each process adds one. A thousand takes a quarter of an hour for all recipes. */
const TIMES = sizeOf('HOLDFAST_SQL_INCREMENTS', 15, 200)
const CONTROL_TIMES = 200

let folder: string
let children: Children

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-sql-counter-'))
  children = new Children()
})

afterEach(async () => {
  await children.stopAll()
  await rm(folder, { recursive: true, force: true })
})

/** Lets all processes count at once, and gives back the number in the file and how long it took. */
async function count(
  { url }: SqlTarget,
  times: number,
  mode: 'locked' | 'unlocked',
): Promise<{ total: number; tookMs: number }> {
  const file = join(folder, 'counter')
  await writeFile(file, '0')
  const args = [url, file, join(folder, 'fences'), times, mode]
  const workers = Array.from({ length: PROCESSES }, () => children.start('counter', args))
  await Promise.all(workers.map((worker) => worker.hear('ready')))
  const since = performance.now()
  for (const worker of workers) worker.say('go')
  await Promise.all(workers.map((worker) => worker.hear('done')))
  return { total: Number(await readFile(file, 'utf8')), tookMs: performance.now() - since }
}

const targets = await sqlTargets()

describe.each(targets)('a counter in a plain file: $title', (target) => {
  it(`counts to the end with ${PROCESSES} processes under one mutex, in the order of the fences`, async () => {
    const { total, tookMs } = await count(target, TIMES, 'locked')
    expect(children.errors).toBe('')
    expect(total).toBe(PROCESSES * TIMES)
    const fences = (await readFile(join(folder, 'fences'), 'utf8')).trimEnd().split('\n').map(BigInt)
    expect(fences.length).toBe(PROCESSES * TIMES)
    const disordered = fences.filter((fence, index) => index > 0 && fence <= (fences[index - 1] as bigint))
    expect(disordered).toEqual([])
    const seconds = tookMs / 1_000
    console.log(
      `sql-counter: ${target.title}: ${total} in ${seconds.toFixed(1)} s, ${Math.round(total / seconds)} hand-overs/s`,
    )
  }, 1_200_000)
})

// A test that could not fail would prove nothing; that it can does not depend on the store.
describe.each(targets.slice(0, 1))('a counter in a plain file', (target) => {
  it('does not count to the end without a lock', async () => {
    const { total } = await count(target, CONTROL_TIMES, 'unlocked')
    expect(total).toBeLessThan(PROCESSES * CONTROL_TIMES)
  })
})
