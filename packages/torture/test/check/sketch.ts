import type {
  EventName,
  EventType,
  EventValue,
  HeaderLine,
  HistoryEvent,
  HistoryLine,
} from '../../src/history/format.js'

/** Builds a history by hand: each line is one moment. */
export class Sketch {
  readonly lines: HistoryLine[] = []
  readonly resource: string

  constructor(header: Omit<HeaderLine, 'format'> = {}, resource = 'r') {
    this.resource = resource
    this.lines.push({ format: 'holdfast-history/1', ...header })
  }

  at(t: number, p: string, f: EventName, type: EventType, v?: EventValue, k = this.resource): this {
    const event: HistoryEvent = { t, p, f, type, k }
    this.lines.push(v === undefined ? event : { ...event, v })
    return this
  }

  /** A whole hold: asked for one tick before `from`, given back in one tick after `to`. */
  hold(p: string, from: number, to: number, { input, output }: HoldValues = {}): this {
    return this.acquired(p, from, { input, output }).released(p, to)
  }

  acquired(p: string, from: number, { input, output }: HoldValues = {}): this {
    return this.at(from - 1, p, 'acquire', 'invoke', input).at(from, p, 'acquire', 'ok', output)
  }

  released(p: string, to: number): this {
    return this.at(to, p, 'release', 'invoke').at(to + 1, p, 'release', 'ok')
  }

  note(t: number, p: string, f: EventName, v?: EventValue): this {
    return this.at(t, p, f, 'note', v)
  }

  fault(from: number, to: number, fault: string, target: string): this {
    return this.at(from, 'nemesis', 'fault-begin', 'note', { fault, target }, '').at(
      to,
      'nemesis',
      'fault-end',
      'note',
      { fault, target },
      '',
    )
  }
}

export interface HoldValues {
  readonly input?: EventValue | undefined
  readonly output?: EventValue | undefined
}
