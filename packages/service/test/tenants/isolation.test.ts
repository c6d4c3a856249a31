// @module-tag limits
// @module-tag secrets
/** While one tenant asks for all that it may have and more, the requests of another stay correct and bounded in bytes. Times are printed. */

import { randomBytes } from 'node:crypto'
import { afterEach, expect, it } from 'vitest'
import { sizeOf } from '../../../../test/support/depth.js'
import { until } from '../../../../test/support/wait.js'
import { makeTokens, pathOf } from '../security/running-service.js'
import { type Flooded, LineProcess, type Memory } from './isolation/processes.js'
import { median, percentile, Victim } from './isolation/victim.js'
import { buildService } from './mutants/bundle.js'
import { Wire } from './wire.js'

const PAIRS = sizeOf('HOLDFAST_TENANTS_PAIRS', 2, 12)
const CYCLES = sizeOf('HOLDFAST_TENANTS_CYCLES', 15, 60)
const MIB = 1_024 * 1_024

const { auth, token } = makeTokens({
  calm: [
    { prefix: 'calm/', can: ['acquire', 'inspect'] },
    { prefix: 'records/calm/', can: ['acquire'] },
  ],
  flood: [{ prefix: 'flood/', can: ['acquire', 'inspect'] }],
})

/** What one token may have here. The defaults allow ten times as much of the first two. */
const LIMITS = { claimsPerPrincipalMax: 1_000, waitersPerPrincipalMax: 500, listsPerPrincipalMax: 8 }
const PLAN = { claims: 1_200, waiters: 600, streams: 30, lists: 10, lanes: 16 }

/** Memory of the process that a token with these limits may take: see "One tenant and another" in docs/service.md. */
const HEAP_BYTES_MAX = 96 * MIB
const RSS_BYTES_MAX = 400 * MIB
/** What may stay when the flood is over: histories, and what the runtime keeps. */
const LEFT_BYTES_MAX = 64 * MIB

const ended: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const end of ended.splice(0).toReversed()) await end()
})

async function hasLeft(wire: Wire): Promise<boolean> {
  const { answer } = await wire.send({ method: 'GET', path: pathOf('flood/held'), token: token.flood })
  return answer?.json['waitersTotal'] === 0
}

it(`one tenant floods, another one works: ${PAIRS} pairs of ${CYCLES} cycles`, async () => {
  const built = await buildService(null)
  ended.push(built.remove)
  const url = `memory:isolation-${randomBytes(6).toString('hex')}`
  const options = { url, auth, limits: LIMITS, listen: { host: '127.0.0.1', port: 0 } }
  const service = new LineProcess(
    'service-process.mjs',
    [built.module, JSON.stringify(options)],
    ['--expose-gc'],
  )
  ended.push(() => service.kill())
  const port = Number(new URL((await service.read<{ url: string }>()).url).port)
  const flood = new LineProcess('flood-process.mjs', [JSON.stringify({ port, token: token.flood, ...PLAN })])
  flood.yieldToOthers()
  ended.push(() => flood.kill())
  const wire = new Wire(port)
  ended.push(() => wire.close())
  const victim = new Victim(wire, token.calm)

  await victim.work(CYCLES)
  const before = await service.tell<Memory>('memory')
  const alone: number[][] = []
  const again: number[][] = []
  const flooded: number[][] = []
  const leaving: number[][] = []
  const answers: Record<string, number> = {}
  let largest = 0
  let most: Memory = before
  for (let pair = 0; pair < PAIRS; pair += 1) {
    // The service puts away what the flood before left.
    await victim.work(CYCLES)
    alone.push([...(await victim.work(CYCLES))])
    again.push([...(await victim.work(CYCLES))])
    await flood.tell<Flooded>('start')
    await until('the flood', async () => (await flood.tell<Flooded>('look')).answers['429'] ?? 0, {
      everyMs: 50,
    })
    flooded.push([...(await victim.work(CYCLES))])
    const memory = await service.tell<Memory>('memory')
    if (memory.heapUsed > most.heapUsed) most = memory
    const done = await flood.tell<Flooded>('stop')
    leaving.push([...(await victim.work(CYCLES))])
    await until('the waiters of the flood have left', () => hasLeft(wire))
    largest = Math.max(largest, done.largest)
    for (const [status, count] of Object.entries(done.answers))
      answers[status] = (answers[status] ?? 0) + count
  }
  const after = await service.tell<Memory>('memory')

  const p99 = (times: readonly (readonly number[])[]): readonly number[] =>
    times.map((each) => percentile(each, 0.99))
  const ratios = p99(flooded).map((ms, pair) => ms / (p99(alone)[pair] ?? Number.NaN))
  const controls = p99(again).map((ms, pair) => ms / (p99(alone)[pair] ?? Number.NaN))
  const text = (values: readonly number[]): string => values.map((value) => value.toFixed(1)).join(', ')
  const mib = ({ heapUsed, external, rss }: Memory): string =>
    [heapUsed, external, rss].map((bytes) => (bytes / MIB).toFixed(1)).join(' / ')
  process.stderr.write(
    [
      'isolation of tenants on memory:',
      `flood answered ${JSON.stringify(answers)}, largest answer ${largest} bytes`,
      `heap / external / rss in MiB: before ${mib(before)}, flooded ${mib(most)}, after ${mib(after)}`,
      `p99 in ms: alone ${text(p99(alone))}; alone again ${text(p99(again))}; flooded ${text(p99(flooded))}; while the flood leaves ${text(p99(leaving))}`,
      `p50 in ms: alone ${median(alone.flat()).toFixed(2)}; flooded ${median(flooded.flat()).toFixed(2)}`,
      `p99 ratio flooded to alone: median ${median(ratios).toFixed(2)} (${text(ratios)}); control ${median(controls).toFixed(2)}`,
      '',
    ].join('\n  '),
  )
  expect(victim.wrong).toEqual([])
  expect(answers['429'] ?? 0).toBeGreaterThan(0)
  expect(Number(answers['500'] ?? 0) + Number(answers['503'] ?? 0) + Number(answers['504'] ?? 0)).toBe(0)
  expect(largest).toBeLessThan(1.2 * MIB)
  expect(most.heapUsed - before.heapUsed).toBeLessThan(HEAP_BYTES_MAX)
  expect(most.rss).toBeLessThan(RSS_BYTES_MAX)
  expect(after.heapUsed - before.heapUsed).toBeLessThan(LEFT_BYTES_MAX)
}, 1_800_000)
