/** One lock that many callers want: how often it changes hands, and how long they wait. */

import type { Chart } from '../chart.js'
import { type Bench, type Findings, milliseconds, perSecond, sayRound } from '../group.js'
import { atLeast, atMost, type Bar, type Row } from '../report.js'
import { interleave, median, medianRatio } from '../rotation.js'
import { type Contention, contend } from './contend.js'
import { ours } from './ours.js'
import { peers } from './peers.js'
import { withRedis } from './server.js'
import type { Subject } from './subject.js'
import { withRedisCrew as withCrew } from './worker.js'

interface Setting {
  readonly processes: number
  /** In each process. */
  readonly callers: number
  readonly holdTurns: number
  readonly forMs: number
  readonly rounds: number
}

export interface Contended {
  readonly subject: Subject
  /** One for each round. */
  readonly rounds: readonly Contention[]
}

/** On one driver only: how callers wait does not depend on it. */
const [oursHere] = ours
const contenders: readonly Subject[] = [...(oursHere === undefined ? [] : [oursHere]), ...peers]

async function measure(bench: Bench, setting: Setting): Promise<readonly Contended[]> {
  const { processes, callers, holdTurns, forMs, rounds } = setting
  const answers = await withRedis(({ port }) =>
    withCrew(processes, port, async (crew) => {
      const once = ({ name }: Subject): Promise<Contention> =>
        contend(crew, { subject: name, name: 'contended', callers, holdTurns, forMs })
      for (const subject of contenders) {
        bench.say(`warming up ${subject.name}`)
        await once(subject)
      }
      return interleave(contenders, rounds, once, sayRound(bench))
    }),
  )
  return contenders.map((subject, index) => ({ subject, rounds: answers[index] ?? [] }))
}

type Quantity = keyof Contention

function valuesOf({ rounds }: Contended, quantity: Quantity): readonly number[] {
  return rounds.map((round) => round[quantity])
}

function ratioOf(one: Contended, other: Contended, quantity: Quantity): number {
  return medianRatio(valuesOf(one, quantity), valuesOf(other, quantity))
}

/** The peer that comes closest to us, or is furthest ahead. */
function best(us: Contended, them: readonly Contended[], quantity: Quantity): Contended {
  const sign = isWait(quantity) ? -1 : 1
  const [first] = them.toSorted((a, b) => sign * (ratioOf(us, a, quantity) - ratioOf(us, b, quantity)))
  if (first === undefined) throw new Error('There is no peer to compare with.')
  return first
}

export async function crowd(bench: Bench): Promise<Findings> {
  const setting = { processes: 1, callers: 32, holdTurns: 0 }
  const plan = bench.quick ? { forMs: 500, rounds: 3 } : { forMs: 1_000, rounds: 9 }
  const measured = await measure(bench, { ...setting, ...plan })
  return describe('redis: 32 callers of one process, one lock', measured, 10)
}

export async function processes(bench: Bench): Promise<Findings> {
  const setting = { processes: 4, callers: 8, holdTurns: 1 }
  const plan = bench.quick ? { forMs: 1_500, rounds: 3 } : { forMs: 5_000, rounds: 5 }
  const measured = await measure(bench, { ...setting, ...plan })
  const found = describe('redis: 4 processes with 8 callers each, one lock', measured, 1.5)
  const [us] = measured as readonly [Contended]
  const longest: Row = {
    what: 'longest wait',
    value: milliseconds(median(valuesOf(us, 'waitMaxMs'))),
    against: `its own median wait: ${milliseconds(median(valuesOf(us, 'waitP50Ms')))}`,
    figure: median(us.rounds.map(({ waitMaxMs, waitP50Ms }) => waitMaxMs / waitP50Ms)),
    bar: atMost(5),
  }
  const rows = [
    compareWith(measured, 'waitP99Ms', 'wait, p99', atMost(0.25)),
    compareWith(measured, 'anyWaitP99Ms', 'wait, p99, with those who waited for nobody'),
    longest,
  ]
  return {
    ...found,
    rows: [...rows, ...found.rows],
    charts: [...(found.charts ?? []), draw(`${found.title}: wait, p99`, measured, 'waitP99Ms')],
  }
}

function isWait(quantity: Quantity): boolean {
  return quantity.endsWith('Ms')
}

/** Us against the best peer of this quantity. */
function compareWith(measured: readonly Contended[], quantity: Quantity, what: string, bar?: Bar): Row {
  const [us, ...them] = measured as readonly [Contended, ...Contended[]]
  const rival = best(us, them, quantity)
  const show = (one: Contended): string => showQuantity(quantity, median(valuesOf(one, quantity)))
  return {
    what,
    value: show(us),
    against: `${rival.subject.name}: ${show(rival)}`,
    figure: ratioOf(us, rival, quantity),
    ...(bar === undefined ? {} : { bar }),
  }
}

function showQuantity(quantity: Quantity, value: number): string {
  return isWait(quantity) ? milliseconds(value) : perSecond(value)
}

function describe(title: string, measured: readonly Contended[], bar: number): Findings {
  const [us] = measured as readonly [Contended]
  return {
    title,
    rows: [
      compareWith(measured, 'handOversPerSecond', 'hand-overs', atLeast(bar)),
      compareWith(measured, 'acquisitionsPerSecond', 'acquisitions'),
      // A lock that two have at once is as fast as can be, so no other number counts without this one.
      { what: 'two holders at once', value: '', figure: overlapsOf(us), unit: 'times', bar: atMost(0) },
      ...measured.map((one): Row => ({ what: one.subject.name, value: summary(one) })),
    ],
    charts: [draw(`${title}: hand-overs`, measured, 'handOversPerSecond')],
  }
}

function overlapsOf(one: Contended): number {
  return valuesOf(one, 'overlaps').reduce((sum, count) => sum + count, 0)
}

function summary(one: Contended): string {
  const of = (quantity: Quantity): number => median(valuesOf(one, quantity))
  const waits =
    `p50 ${milliseconds(of('waitP50Ms'))}, p99 ${milliseconds(of('waitP99Ms'))}, ` +
    `max ${milliseconds(Math.max(...valuesOf(one, 'waitMaxMs')))}`
  const overlaps = overlapsOf(one)
  const fault = overlaps === 0 ? '' : `; TWO HOLDERS AT ONCE ${overlaps} times`
  const rates = `${perSecond(of('handOversPerSecond'))} of ${perSecond(of('acquisitionsPerSecond'))}`
  return `${rates}; wait ${waits}${fault}`
}

function draw(title: string, measured: readonly Contended[], quantity: Quantity): Chart {
  const bars = measured.map((one) => {
    const value = median(valuesOf(one, quantity))
    return { label: one.subject.name, value, text: showQuantity(quantity, value), kind: one.subject.kind }
  })
  return { title, better: isWait(quantity) ? 'less' : 'more', bars }
}
