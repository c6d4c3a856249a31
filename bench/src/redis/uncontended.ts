/** Locks that nobody else wants: what taking one and giving it back costs. */

import type { Chart } from '../chart.js'
import { type Bench, type Findings, perSecond, sayRound } from '../group.js'
import { atLeast, type Row } from '../report.js'
import { type Contender, type Measured, median, ratio, rotate } from '../rotation.js'
import { ours } from './ours.js'
import { fastPeers } from './peers.js'
import { control, raw } from './raw.js'
import { withRedis } from './server.js'
import type { LockClient, Subject } from './subject.js'

interface Opened {
  readonly subject: Subject
  readonly client: LockClient
}

/** The wait between two looks plays no part here, so the peers take part once. */
const contenders: readonly Subject[] = [...raw, ...ours, ...fastPeers, control]

/** Every caller has a name of its own and uses it over and over. */
export async function callerLoop(client: LockClient, inFlight: number, times: number): Promise<void> {
  const share = Math.ceil(times / inFlight)
  const caller = async (_: unknown, index: number): Promise<void> => {
    const name = `uncontended-${index}`
    for (let done = 0; done < share; done += 1) await client.once(name)
  }
  await Promise.all(Array.from({ length: inFlight }, caller))
}

/** All of them share the server and take turns, so nobody meets anybody else's lock. */
export async function openAll(all: readonly Subject[], port: number): Promise<readonly Opened[]> {
  const opened: Opened[] = []
  for (const subject of all) opened.push({ subject, client: await subject.open(port) })
  return opened
}

export function uncontended(bench: Bench, inFlight: number): Promise<Findings> {
  const times = inFlight === 1 ? 200 : inFlight * 20
  const rounds = bench.quick ? 31 : 101
  return withRedis(async ({ port }) => {
    const opened = await openAll(contenders, port)
    const running = opened.map(
      ({ subject: { name }, client }): Contender => ({
        name,
        run: (count) => callerLoop(client, inFlight, count),
      }),
    )
    bench.say('warming up')
    const measured = await rotate(running, { times, rounds }, sayRound(bench))
    for (const { client } of opened) await client.close()
    return describe(`redis: acquire + release, uncontended, ${inFlight} in flight`, inFlight, measured)
  })
}

function describe(title: string, inFlight: number, measured: readonly Measured[]): Findings {
  const of = (name: string | undefined): Measured =>
    measured.find((each) => each.name === name) ?? { name: 'nobody', rates: [] }
  const [bareIoredis, bareNodeRedis] = raw.map(({ name }) => of(name))
  const [onIoredis, onNodeRedis] = ours.map(({ name }) => of(name))
  const rows = [
    compare('on ioredis', onIoredis, bareIoredis, 0.9),
    compare('on node-redis', onNodeRedis, bareNodeRedis, 0.9),
    compare('control: the same twice', of(control.name), bareIoredis, null),
    ...fastPeers.map(({ name }) => compare('on ioredis', onIoredis, of(name), inFlight === 1 ? null : 1)),
  ]
  return { title, rows, charts: [draw(title, measured)] }
}

function compare(
  what: string,
  one: Measured | undefined,
  other: Measured | undefined,
  bar: number | null,
): Row {
  if (one === undefined || other === undefined) throw new Error(`Somebody was not measured: ${what}.`)
  return {
    what,
    value: perSecond(median(one.rates)),
    against: `${shortName(other.name)}: ${perSecond(median(other.rates))}`,
    figure: ratio(one, other),
    ...(bar === null ? {} : { bar: atLeast(bar) }),
  }
}

/** How often somebody would look is of no interest where nobody waits. */
function shortName(name: string): string {
  return name.replace(', 5 ms', '')
}

function draw(title: string, measured: readonly Measured[]): Chart {
  const bars = contenders.map(({ name, kind }, index) => {
    const value = median(measured[index]?.rates ?? [])
    return { label: shortName(name), value, text: perSecond(value), kind }
  })
  return { title, better: 'more', bars }
}
