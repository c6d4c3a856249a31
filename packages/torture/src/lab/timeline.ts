/** The history of a run as lines for people. Names in it are the schedule's own; errors are not, so printers escape. */

import type { EventValue, HistoryEvent, HistoryLine } from '../history/format.js'
import { isHeader } from '../history/format.js'
import type { Remark } from './scene.js'

interface Entry {
  readonly t: number
  readonly who: string
  readonly text: string
}

/** What happened, one line each, with the milliseconds since the first thing that happened. */
export function timelineOf(history: readonly HistoryLine[], remarks: readonly Remark[]): readonly string[] {
  const events = history.filter((line): line is HistoryEvent => !isHeader(line))
  const entries: Entry[] = [
    ...events.flatMap((event) => entryOf(event)),
    ...remarks.map(({ t, text }) => ({ t, who: '', text })),
  ].sort((a, b) => a.t - b.t)
  const begin = entries[0]?.t ?? 0
  const width = Math.max(0, ...entries.map(({ who }) => who.length))
  return entries.map(({ t, who, text }) => {
    const ms = ((t - begin) / 1_000).toFixed(0).padStart(6)
    return `${ms} ms  ${who.padEnd(width)}  ${text}`
  })
}

function entryOf(event: HistoryEvent): Entry[] {
  const text = textOf(event)
  if (text === null) return []
  return [{ t: event.t, who: event.f.startsWith('fault') ? '' : event.p, text }]
}

/** What is said of an event; null for those that only repeat what the next one says. */
function textOf({ f, type, k, v = {} }: HistoryEvent): string | null {
  const fence = v.fence === undefined ? '' : ` with fence ${v.fence}`
  const why = v.error === undefined ? '' : ` (${v.error})`
  switch (f) {
    case 'acquire':
      if (type === 'invoke') return 'asks for the lock'
      if (type === 'ok') return `HOLDS the lock${fence}`
      return type === 'fail' ? `does not get it${why}` : `does not know whether it got it${why}`
    case 'release':
      if (type === 'invoke') return 'releases'
      if (type === 'fail') return 'finds that there is nothing to release'
      return type === 'ok' ? 'has released' : `does not know whether it has released${why}`
    case 'assert':
      if (type === 'invoke') return null
      return type === 'ok' ? 'checks: still held' : `checks: no longer held${why}`
    case 'extend':
      if (type === 'invoke') return null
      return type === 'ok' ? 'has renewed' : `cannot renew${why}`
    case 'read':
      return type === 'ok' ? `reads ${JSON.stringify(v.value)}` : null
    case 'add':
      if (type === 'invoke') return `writes what it has read and ${String(v.value)}${fence}`
      return type === 'ok' ? 'the write is accepted' : `the write is refused${why}`
    case 'write':
      if (type === 'invoke') return `writes ${String(v.value)}${fence}`
      return type === 'ok' ? 'the write is accepted' : `the write is refused${why}`
    case 'issue':
      return type === 'ok' ? `hands out ${k}` : null
    case 'execute':
      if (type === 'invoke') return `is asked to ${v.input ?? 'do it'} under ${k}`
      return type === 'ok' ? `answers: ${String(v.value)}` : `refuses${why}`
    case 'lost':
      return `is told that the lock is lost${why}`
    case 'death':
      return 'is dead'
    case 'fault-begin':
      return `${faultText(v)}${v.error === undefined ? '' : ` ${v.error}`}`
    case 'fault-end':
      return endText(v)
    case 'evict':
    case 'queued':
    case 'stall':
    case 'tripped':
      return `${f} ${type}${v.value === undefined ? '' : ` ${String(v.value)}`}${why}`
  }
}

function faultText({ fault = '', target = '' }: EventValue): string {
  if (fault === 'pause') return `${target} is stopped`
  return fault === 'kill' ? `${target} is killed` : `${fault} of ${target} begins`
}

function endText({ fault = '', target = '' }: EventValue): string | null {
  if (fault === 'pause') return `${target} goes on`
  return fault === 'kill' ? null : `${fault} of ${target} ends`
}
