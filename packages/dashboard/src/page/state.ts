import type { Activity, Deadlock, Hello, ResourceView, Stats } from '../model/contract.js'
import { Rows } from '../model/rows.js'
import { Series } from '../model/series.js'
import type { Connection } from './live.js'

/** Of everything, for the feed; a lock's own page asks for its history. */
const ACTIVITIES_MAX = 400

/** Everything the page knows. Views read it; only the stream writes it. */
export class State {
  readonly rows = new Rows()
  readonly series = new Series()
  hello: Hello | null = null
  connection: Connection = { kind: 'connecting' }
  deadlocks: readonly Deadlock[] = []
  /** How many there are beside those: the service sends as many as fit into one message. */
  deadlocksLeftOut = 0
  stats: Stats | null = null
  /** Newest last. */
  activities: Activity[] = []
  /** Whether a first list was complete; before that nothing can be said of what there is. */
  complete = false
  /** Something is new; views look at what they need. */
  onChange: (() => void) | null = null
  /** A connection begins. What was heard before says nothing about what was missed in between. */
  onHello: (() => void) | null = null
  onActivity: ((activity: Activity) => void) | null = null
  #calendarOffset = Number.NaN

  /** The service's calendar, from what it last said and the time since then. The reader's own may be wrong. */
  serviceNow(): number {
    return Number.isNaN(this.#calendarOffset) ? Date.now() : performance.now() + this.#calendarOffset
  }

  /** Whether the list says who is at this lock, so that who is not in it is not there. */
  isListed(name: string): boolean {
    if (this.hello?.guarantees.shows !== 'claims' || !this.complete || this.rows.isComing) return false
    // Of the names beyond those that the service looks at, nothing is known.
    return this.stats?.truncated !== true || this.rows.get(name) !== undefined
  }

  hear(event: string, data: unknown): void {
    const now = performance.now()
    switch (event) {
      case 'hello':
        this.hello = data as Hello
        this.#calendarOffset = Date.parse(this.hello.now) - now
        this.rows.begin()
        // A store of which nothing can be listed sends no list.
        if (this.hello.guarantees.shows === 'connections') this.rows.part([], false, now)
        this.complete ||= this.hello.guarantees.shows === 'connections'
        this.onHello?.()
        break
      case 'snapshot': {
        const { locks, more } = data as { locks: ResourceView[]; more: boolean }
        this.rows.part(locks, more, now)
        this.complete ||= !more
        break
      }
      case 'change': {
        const { changed, removed } = data as { changed: ResourceView[]; removed: string[] }
        this.rows.change(changed, removed, now)
        break
      }
      case 'activity': {
        const activity = data as Activity
        this.activities.push(activity)
        if (this.activities.length > 2 * ACTIVITIES_MAX)
          this.activities = this.activities.slice(-ACTIVITIES_MAX)
        this.rows.heard(activity, now)
        this.series.heard(activity)
        this.onActivity?.(activity)
        break
      }
      case 'deadlocks': {
        const { deadlocks, total = deadlocks.length } = data as { deadlocks: Deadlock[]; total?: number }
        this.deadlocks = deadlocks
        this.deadlocksLeftOut = Math.max(0, total - deadlocks.length)
        break
      }
      case 'stats':
        this.stats = data as Stats
        this.series.add(this.stats, now)
        this.#calendarOffset = Date.parse(this.stats.at) - now
        break
      default:
        // A newer service may say more than this page understands.
        return
    }
    this.onChange?.()
  }
}
