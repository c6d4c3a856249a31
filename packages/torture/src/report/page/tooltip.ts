import type { FaultData, ReportData } from '../data.js'
import { duration, el, moment, shortened } from './dom.js'
import type { Row } from './rows.js'
import type { Call, Hold, Mark, Wait } from './tracks.js'

const TEXT_MOST = 400

/** What is known of something in the timeline: a heading, and lines below it. */
export type Telling = readonly [heading: string, ...lines: string[]]

export function tellHold(hold: Hold, resource: string): Telling {
  const how = `${hold.shared ? 'shared' : 'exclusive'}${hold.weight === 1 ? '' : `, weight ${hold.weight}`}`
  const end = {
    released: 'until it was released',
    lost: 'until its loss could be seen',
    expired: 'until its time ran out',
    death: 'until its process died',
    evicted: 'until it was taken away',
    open: 'still held at the end',
  }[hold.end]
  return [
    `${hold.caller} held ${resource}`,
    how,
    `${moment(hold.from, 10)} – ${moment(hold.to, 10)}, ${duration(hold.to - hold.from)}, ${end}`,
    ...(hold.fence === '' ? [] : [`fence ${hold.fence}`]),
    ...(hold.doubtful ? ['in doubt: it may have been over already'] : []),
  ]
}

export function tellWait(wait: Wait, resource: string): Telling {
  const end = { unknown: 'outcome unknown', died: 'died waiting', open: 'still waiting at the end' }
  const text = wait.end === 'unknown' || wait.end === 'died' || wait.end === 'open' ? end[wait.end] : wait.end
  return [
    `${wait.caller} waited for ${resource}`,
    `${moment(wait.from, 10)} – ${moment(wait.to, 10)}, ${duration(wait.to - wait.from)}, ${text}`,
  ]
}

export function tellCall(call: Call, resource: string): Telling {
  return [
    `${call.caller}: ${call.name} ${resource}, ${call.end}`,
    `${moment(call.from, 10)} – ${moment(call.to, 10)}, ${duration(call.to - call.from)}`,
    ...(call.text === '' ? [] : [call.text]),
  ]
}

export function tellMark(mark: Mark, resource: string): Telling {
  const what = {
    lost: 'could see its loss of',
    tripped: 'met another that should not be in',
    died: 'died with',
  }[mark.kind]
  return [
    `${mark.caller} ${what} ${resource}`,
    `at ${moment(mark.at, 10)}`,
    ...(mark.text === '' ? [] : [mark.text]),
  ]
}

export function tellFault(fault: FaultData): Telling {
  const end = fault.open ? ', not ended' : ''
  return [
    `${fault.name} ${fault.target}`,
    `${moment(fault.from, 10)} – ${moment(fault.to, 10)}, ${duration(fault.to - fault.from)}${end}`,
  ]
}

/** What is at a moment in a row, the smaller before the larger. */
export function tellAt(data: ReportData, row: Row, t: number, slack: number): Telling | null {
  const resource = data.resources[row.resource]?.name ?? ''
  const track = row.track()
  const mark = track.marks.find((candidate) => Math.abs(candidate.at - t) <= slack * 2)
  if (mark !== undefined) return tellMark(mark, resource)
  let call: Call | null = null
  track.calls.visit(t - slack, t + slack, (candidate) => {
    call ??= candidate
  })
  if (call !== null) return tellCall(call, resource)
  let hold: Hold | null = null
  track.holds.visit(t - slack, t + slack, (candidate) => {
    if (hold === null || candidate.to - candidate.from < hold.to - hold.from) hold = candidate
  })
  if (hold !== null) return tellHold(hold, resource)
  let wait: Wait | null = null
  track.waits.visit(t - slack, t + slack, (candidate) => {
    wait ??= candidate
  })
  return wait === null ? null : tellWait(wait, resource)
}

/** One box that follows the pointer, and is read out when the keyboard moves. */
export class Tooltip {
  readonly #box = el('div', { class: 'tooltip', role: 'tooltip', hidden: '' })

  constructor(parent: HTMLElement) {
    parent.append(this.#box)
  }

  show([heading, ...lines]: Telling, x: number, y: number): void {
    this.#box.replaceChildren(
      el('strong', {}, shortened(heading, TEXT_MOST)),
      ...lines.map((line) => el('div', {}, shortened(line, TEXT_MOST))),
    )
    this.#box.hidden = false
    const { width, height } = this.#box.getBoundingClientRect()
    const left = x + 14 + width > window.innerWidth ? x - 14 - width : x + 14
    const top = y + 16 + height > window.innerHeight ? y - 12 - height : y + 16
    this.#box.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`
  }

  hide(): void {
    this.#box.hidden = true
  }
}
