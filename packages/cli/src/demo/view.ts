/** How the demonstration looks. Pure: from what is known to lines of text. */

import { styleText } from 'node:util'
import type { ClaimView } from 'holdfast'
import { formatDuration } from '../format/duration.js'
import { escapeText } from '../format/escape.js'
import type { Finding } from './findings.js'
import { LOCK_NAME } from './protocol.js'
import type { WorkerState } from './troupe.js'

export interface WorkerLine {
  readonly number: number
  readonly pid: number
  readonly state: WorkerState
  readonly increments: number
  readonly fence: bigint | null
}

export interface DemoEvent {
  readonly atMs: number
  readonly text: string
}

export interface Snapshot {
  readonly elapsedMs: number
  readonly totalMs: number
  readonly workers: readonly WorkerLine[]
  readonly holders: readonly ClaimView[]
  readonly waiters: readonly ClaimView[]
  readonly counter: number
  readonly events: readonly DemoEvent[]
}

export type Paint = (style: 'bold' | 'dim' | 'green' | 'red' | 'yellow', text: string) => string

export function painter(colour: boolean): Paint {
  return (style, text) => (colour ? styleText(style, text) : text)
}

const BAR_WIDTH = 24

/** The whole live view. Its height does not change, so that nothing jumps. */
export function liveLines(shot: Snapshot, paint: Paint): string[] {
  const about = `${shot.workers.length} processes, one lock, one SQLite file`
  return [
    `${paint('bold', 'holdfast demo')}  ${about}   ${progressBar(shot)}`,
    '',
    `  lock     ${LOCK_NAME}`,
    `  holder   ${holderText(shot, paint)}`,
    `  line     ${lineText(shot)}`,
    `  counter  ${paint('bold', String(shot.counter))}`,
    '',
    ...shot.workers.map((worker) => workerLine(worker, paint)),
    '',
    ...eventLines(shot.events, paint),
  ]
}

function progressBar({ elapsedMs, totalMs }: Snapshot): string {
  const done = Math.min(BAR_WIDTH, Math.floor((elapsedMs / totalMs) * BAR_WIDTH))
  return `[${'='.repeat(done)}${' '.repeat(BAR_WIDTH - done)}] ${(elapsedMs / 1_000).toFixed(0)}s`
}

function holderText({ holders, workers }: Snapshot, paint: Paint): string {
  const [holder] = holders
  if (holder === undefined) return paint('dim', 'nobody')
  const left = holder.remainingMs === null ? '' : `, lease ends in ${formatDuration(holder.remainingMs)}`
  const dead = workers.some((worker) => worker.pid === holder.owner.pid && worker.state === 'killed')
  const text = `${nameOf(holder)}  fence ${holder.fence}${left}`
  return dead ? paint('red', `${text}  (dead, but its lease is not over)`) : paint('green', text)
}

function lineText({ waiters }: Snapshot): string {
  return waiters.length === 0 ? 'nobody waits' : waiters.map(nameOf).join(', then ')
}

/** Workers carry their name as a note, which the store hands back to everybody. */
function nameOf(claim: ClaimView): string {
  return escapeText(claim.note ?? `pid ${claim.owner.pid}`)
}

function workerLine(worker: WorkerLine, paint: Paint): string {
  const name = `worker ${worker.number}`.padEnd(10)
  const state = worker.state.padEnd(9)
  const fence = worker.fence === null ? '' : `last fence ${worker.fence}`
  const increments = `increments ${String(worker.increments).padEnd(4)}`
  const who = `${name} pid ${String(worker.pid).padEnd(8)}`
  return `  ${who} ${paintState(worker.state, state, paint)} ${increments} ${fence}`.trimEnd()
}

function paintState(state: WorkerState, text: string, paint: Paint): string {
  switch (state) {
    case 'holding':
      return paint('green', text)
    case 'killed':
      return paint('red', text)
    case 'waiting':
      return paint('yellow', text)
    case 'starting':
    case 'resting':
    case 'ended':
      return paint('dim', text)
  }
}

const EVENT_LINES = 5

function eventLines(events: readonly DemoEvent[], paint: Paint): string[] {
  const shown = events.slice(-EVENT_LINES).map(({ atMs, text }) => `  ${paint('dim', stamp(atMs))} ${text}`)
  return [...shown, ...Array<string>(EVENT_LINES - shown.length).fill('')]
}

function stamp(atMs: number): string {
  return `${(atMs / 1_000).toFixed(1)}s`.padStart(6)
}

/** What a log or a build server shows instead of the live view. */
export function plainEvent({ atMs, text }: DemoEvent): string {
  return `${stamp(atMs)}  ${text}`
}

export function plainStatus(shot: Snapshot): string {
  const [holder] = shot.holders
  const held = holder === undefined ? 'nobody holds' : `${nameOf(holder)} holds with fence ${holder.fence}`
  return plainEvent({
    atMs: shot.elapsedMs,
    text: `counter ${shot.counter}; ${held}; line: ${lineText(shot)}`,
  })
}

export function findingLines(findings: readonly Finding[], paint: Paint): string[] {
  const mark = (ok: boolean): string => (ok ? paint('green', 'ok    ') : paint('red', 'FAILED'))
  return ['What was seen:', ...findings.map(({ ok, text }) => `  ${mark(ok)}  ${escapeText(text)}`)]
}
