import type { LaneData, ReportData } from '../data.js'
import { processOf, type Track, trackOf } from './tracks.js'

export interface Row {
  readonly kind: 'resource' | 'callers'
  readonly resource: number
  readonly label: string
  readonly aside: string
  readonly top: number
  readonly height: number
  /** Whether the rows of a resource are shown below it. */
  readonly open: boolean
  track(): Track
}

export interface Filter {
  readonly resource: string
  readonly process: string
  readonly by: 'caller' | 'process'
}

export const LEVEL_HEIGHT = 13
const ROW_PADDING = 8
const RESOURCE_HEIGHT = 26

/** Arranges what is drawn in rows: one for each resource, and below it one for each caller or process. */
export class Rows {
  readonly #data: ReportData
  readonly #byResource: readonly LaneData[][]
  readonly #tracks = new Map<string, Track>()
  readonly #open = new Set<number>()
  filter: Filter = { resource: '', process: '', by: 'caller' }
  all: readonly Row[] = []
  height = 0

  constructor(data: ReportData) {
    this.#data = data
    this.#byResource = data.resources.map((_, index) => data.lanes.filter((lane) => lane.resource === index))
    const few = data.lanes.length <= 60
    const bad = new Set(data.violations.map((violation) => violation.resource))
    data.resources.forEach((_, index) => {
      if (few || index === 0 || (bad.has(index) && bad.size <= 8)) this.#open.add(index)
    })
    if (data.lanes.length > 200) this.filter = { ...this.filter, by: 'process' }
    this.arrange()
  }

  toggle(resource: number): void {
    if (!this.#open.delete(resource)) this.#open.add(resource)
    this.arrange()
  }

  open(resource: number): void {
    this.#open.add(resource)
    this.arrange()
  }

  arrange(): void {
    const rows: Row[] = []
    let top = 0
    const add = (row: Omit<Row, 'top'>): void => {
      rows.push({ ...row, top })
      top += row.height
    }
    this.#byResource.forEach((lanes, resource) => {
      const note = this.#data.resources[resource]
      if (note === undefined || !matches(note.name, this.filter.resource)) return
      const shown = lanes.filter((lane) => matches(this.#callerOf(lane), this.filter.process))
      if (shown.length === 0) return
      const open = this.#open.has(resource)
      add({
        kind: 'resource',
        resource,
        label: note.name,
        aside: note.kind,
        height: RESOURCE_HEIGHT,
        open,
        track: () => this.#track('all', resource, '', shown),
      })
      if (!open) return
      for (const [label, group] of this.#grouped(shown)) {
        const track = this.#track(this.filter.by, resource, label, group)
        add({
          kind: 'callers',
          resource,
          label,
          aside: '',
          height: track.levels * LEVEL_HEIGHT + ROW_PADDING,
          open,
          track: () => track,
        })
      }
    })
    this.all = rows
    this.height = top
  }

  /** The row at a height, or undefined. */
  at(y: number): Row | undefined {
    return this.all.find((row) => y >= row.top && y < row.top + row.height)
  }

  rowOf(resource: number, caller: string): Row | undefined {
    const label = this.filter.by === 'caller' ? caller : processOf(caller)
    const own = this.all.find(
      (row) => row.kind === 'callers' && row.resource === resource && row.label === label,
    )
    return own ?? this.all.find((row) => row.resource === resource)
  }

  #grouped(lanes: readonly LaneData[]): Map<string, LaneData[]> {
    const groups = new Map<string, LaneData[]>()
    for (const lane of lanes) {
      const caller = this.#callerOf(lane)
      const label = this.filter.by === 'caller' ? caller : processOf(caller)
      const group = groups.get(label)
      if (group === undefined) groups.set(label, [lane])
      else group.push(lane)
    }
    return groups
  }

  #callerOf(lane: LaneData): string {
    return this.#data.callers[lane.caller] ?? ''
  }

  #track(
    by: 'all' | 'caller' | 'process',
    resource: number,
    label: string,
    lanes: readonly LaneData[],
  ): Track {
    const key = JSON.stringify([by, resource, label, this.filter.process])
    let track = this.#tracks.get(key)
    if (track === undefined) {
      track = trackOf(this.#data, lanes, by !== 'all')
      this.#tracks.set(key, track)
    }
    return track
  }
}

function matches(name: string, filter: string): boolean {
  return filter === '' || name.toLowerCase().includes(filter.toLowerCase())
}
