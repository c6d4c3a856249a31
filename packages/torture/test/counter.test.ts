// @module-tag exclusion
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { atDepth } from '../../../test/support/depth.js'
import { Children } from './children.js'

const PROCESSES = 8
const TIMES = atDepth(100, 2_000)
const CONTROL_TIMES = 300

let folder: string
let children: Children

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-counter-'))
  children = new Children()
})

afterEach(async () => {
  await children.stopAll()
  await rm(folder, { recursive: true, force: true })
})

/** Lets all processes count at once, and gives back the number in the file and how long it took. */
async function count(times: number, mode: 'locked' | 'unlocked'): Promise<{ total: number; tookMs: number }> {
  const file = join(folder, 'counter')
  await writeFile(file, '0')
  const args = [`sqlite:${join(folder, 'locks.db')}`, file, join(folder, 'fences'), times, mode]
  const workers = Array.from({ length: PROCESSES }, () => children.start('counter', args))
  await Promise.all(workers.map((worker) => worker.hear('ready')))
  const since = performance.now()
  for (const worker of workers) worker.say('go')
  await Promise.all(workers.map((worker) => worker.hear('done')))
  return { total: Number(await readFile(file, 'utf8')), tookMs: performance.now() - since }
}

describe('a counter in a plain file', () => {
  it(`counts to the end with ${PROCESSES} processes under one mutex, in the order of the fences`, async () => {
    const { total, tookMs } = await count(TIMES, 'locked')
    expect(total).toBe(PROCESSES * TIMES)
    const fences = (await readFile(join(folder, 'fences'), 'utf8')).trimEnd().split('\n').map(BigInt)
    expect(fences.length).toBe(PROCESSES * TIMES)
    const disordered = fences.filter((fence, index) => index > 0 && fence <= (fences[index - 1] as bigint))
    expect(disordered).toEqual([])
    expect(children.errors).toBe('')
    console.log(
      `counter: ${total} in ${(tookMs / 1_000).toFixed(1)} s, ${Math.round(total / (tookMs / 1_000))} hand-overs/s`,
    )
  }, 600_000)

  // A test that could not fail would prove nothing.
  it('does not without one', async () => {
    const { total } = await count(CONTROL_TIMES, 'unlocked')
    expect(total).toBeLessThan(PROCESSES * CONTROL_TIMES)
  })
})
