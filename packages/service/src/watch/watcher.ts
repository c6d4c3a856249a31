/**
 * Watches a store by looking at it. Nothing that it says decides anything: it is for people who look, so it may be late,
 * and a look that fails is simply tried again.
 */

import type { ClaimView, Deadlock, ResourceView } from 'holdfast'
import type { Activity, Granted, Statistics, WatchListener } from './activity.js'
import { DateTexts, systemClock, type WatchClock } from './clock.js'
import { DeadlockSearch } from './deadlock-search.js'
import { emptyView } from './diff.js'
import { History } from './history.js'
import { type Event, LockTable } from './lock-table.js'
import { Tally } from './tally.js'
import { LOOK_SHARE, TouchedNames } from './touched.js'

export interface WatcherOptions {
  /** Views as callers may see them, fences included. */
  readonly list: (prefix: string) => AsyncIterable<ResourceView>
  readonly inspect: (name: string) => Promise<ResourceView>
  /** Whether names can be listed: `guarantees.shows === 'claims'`. */
  readonly canList: boolean
  readonly clock?: WatchClock
  readonly namesMax?: number
  /** Told of what went wrong in here, which is never the fault of whoever listens. */
  readonly onError?: (error: unknown) => void
}

/** How often the store is looked at while somebody listens, and while nobody does. */
const LOOK_MS = 500
const IDLE_LOOK_MS = 5_000
/** Between two looks for somebody who asks for deadlocks and does not stay to hear of them. */
const AGAIN_MS = 100
/** How long a request waits for the next look to begin. */
const ANEW_WAIT_MAX_MS = 1_000
const STATISTICS_MS = 1_000
/** After so many names of a look, requests get their turn. */
const NAMES_BETWEEN_TURNS = 200
const NAMES_MAX = 50_000
/** Listeners are told at most this many at once; the rest is in the statistics, and in the history. */
const ACTIVITIES_MAX = 500

export class Watcher {
  readonly clock: WatchClock
  readonly canList: boolean
  readonly #options: WatcherOptions
  readonly #onError: (error: unknown) => void
  readonly #history = new History()
  readonly #tally = new Tally()
  readonly #dates = new DateTexts()
  readonly #table = new LockTable((event) => this.#happened(event))
  readonly #listeners = new Set<WatchListener>()
  readonly #touched: TouchedNames
  readonly #deadlocks: DeadlockSearch
  #activities: Activity[] = []
  #seq = 0
  #looking: Promise<void> | null = null
  #lookedAt: number | null = null
  /** When the last look began, and the last one that showed all names. */
  #beganAt = Number.NEGATIVE_INFINITY
  #completeSince = Number.NEGATIVE_INFINITY
  #lookMs: number | null = null
  #isStale = false
  #isTruncated = false
  #isClosed = false
  #lookTimer: (() => void) | null = null
  #statisticsTimer: (() => void) | null = null

  constructor(options: WatcherOptions) {
    this.#options = options
    this.#onError = options.onError ?? ((): void => {})
    this.clock = options.clock ?? systemClock
    this.#deadlocks = new DeadlockSearch(this.clock)
    this.canList = options.canList
    this.#touched = new TouchedNames({
      clock: this.clock,
      look: (names) => this.#lookAtSome(names),
      onLooked: () => this.#publish(null),
      onError: this.#onError,
    })
    if (this.canList) this.#plan()
  }

  /** Something changed there: it is looked at soon, if anybody listens. */
  touch(name: string): void {
    if (!this.canList || this.#isClosed || this.#listeners.size === 0) return
    this.#touched.add(name)
  }

  /** This instance has granted a claim. Includes the touch. */
  acquired(name: string, granted: Granted): void {
    this.#table.acquired(name, granted, this.clock.monotonicMs())
    this.touch(name)
  }

  /** This instance has released a claim, of a holder or of one who waited. Includes the touch. */
  released(name: string, ref: string): void {
    this.#table.ended(name, ref, null, null, this.clock.monotonicMs())
    this.touch(name)
  }

  /** An operator has broken a claim. Includes the touch. */
  broken(name: string, ref: string, reason: string, claim: ClaimView | null = null): void {
    this.#table.ended(name, ref, reason, claim, this.clock.monotonicMs())
    this.touch(name)
  }

  subscribe(listener: WatchListener): () => void {
    if (this.#listeners.size === 0) {
      // What happened while nobody listened is no news.
      this.#tally.take()
      this.#activities = []
      this.#planStatistics()
    }
    this.#listeners.add(listener)
    if (this.canList && this.#looking === null) this.#plan()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size > 0) return
      this.#statisticsTimer?.()
      this.#statisticsTimer = null
      this.#touched.clear()
    }
  }

  /** Something went wrong in a listener. */
  report(error: unknown): void {
    this.#onError(error)
  }

  get listeners(): number {
    return this.#listeners.size
  }

  /** What was seen at a name, newest last. */
  history(name: string): readonly Activity[] {
    return this.#history.of(name)
  }

  /** What is known of a name; null: nobody holds it or waits for it. */
  view(name: string): ResourceView | null {
    return this.#table.view(name)
  }

  names(): readonly string[] {
    return this.#table.names()
  }

  /** What is known of the store now. */
  current(): readonly ResourceView[] {
    return this.#table.views()
  }

  /** Those that were there in a second look as well. */
  deadlocks(): readonly Deadlock[] {
    return this.#deadlocks.confirmed
  }

  /**
   * Looks now, unless that was done within this time, or so lately that looking would take more than its share: whoever
   * asks again and again has no more looks made than whoever listens. It never rejects: what is known stays when the store
   * is silent.
   */
  async refresh(maxAgeMs: number): Promise<void> {
    if (!this.canList || this.#isClosed) return
    await this.#looking
    const ageMs = this.#lookedAt === null ? null : this.clock.monotonicMs() - this.#lookedAt
    if (ageMs === null || ageMs >= Math.max(maxAgeMs, (this.#lookMs ?? 0) * LOOK_SHARE)) await this.#look()
  }

  /** Refreshes, and looks once more where that shows a deadlock which no look before has shown. */
  async refreshDeadlocks(maxAgeMs: number): Promise<void> {
    await this.refresh(maxAgeMs)
    if (!this.#deadlocks.isOpen) return
    const pauseMs = Math.max(AGAIN_MS, (this.#lookMs ?? 0) * LOOK_SHARE)
    // A timer can fire a fraction of a millisecond early.
    await new Promise<void>((resolve) => this.clock.after(pauseMs + 1, resolve))
    // Another look may have been quicker, and then it is not repeated either.
    if (this.#deadlocks.isOpen) await this.refresh(pauseMs)
  }

  /** Waits for a look that begins from now on, which callers share. False: it failed, or the pause before it is too long. */
  async lookAnew(): Promise<boolean> {
    if (!this.canList || this.#isClosed) return false
    const since = this.clock.monotonicMs()
    await this.#looking
    const doneAt = this.#lookedAt ?? Number.NEGATIVE_INFINITY
    const restMs = doneAt + Math.max(LOOK_MS, (this.#lookMs ?? 0) * LOOK_SHARE) - this.clock.monotonicMs()
    if (restMs > ANEW_WAIT_MAX_MS) return false
    if (restMs > 0) {
      await new Promise<void>((resolve) => this.clock.after(restMs, resolve))
      await this.#looking
    }
    if (this.#beganAt < since && !this.#isClosed) await this.#look()
    return this.#beganAt >= since && !this.#isStale
  }

  /** Whether a claim holds, by a look that began at `since` or later; null: no such look says. */
  isHeld(name: string, ref: string, since: number): boolean | null {
    return this.#table.isHeld(name, ref, since) ?? (this.#completeSince >= since ? false : null)
  }

  close(): void {
    this.#isClosed = true
    this.#lookTimer?.()
    this.#statisticsTimer?.()
    this.#touched.clear()
    this.#listeners.clear()
  }

  #happened({ kind, name, claim, waitedMs, heldMs, reason }: Event): void {
    this.#seq += 1
    const { ref, owner, note, fence } = claim
    const at = this.#dates.of(this.clock.wallMs())
    const whole = (ms: number | null): number | null => (ms === null ? null : Math.round(ms))
    const times = { waitedMs: whole(waitedMs), heldMs: whole(heldMs) }
    const activity: Activity = { seq: this.#seq, at, kind, name, ref, owner, note, fence, ...times, reason }
    this.#history.add(activity)
    this.#tally.add(activity)
    if (this.#listeners.size === 0) return
    if (this.#activities.length >= ACTIVITIES_MAX) this.#activities.shift()
    this.#activities.push(activity)
  }

  /** Plans the next look: sooner while somebody listens, and later where looking takes long. */
  #plan(): void {
    this.#lookTimer?.()
    if (this.#isClosed) return
    const paceMs = Math.max(
      this.#listeners.size > 0 ? LOOK_MS : IDLE_LOOK_MS,
      (this.#lookMs ?? 0) * LOOK_SHARE,
    )
    const sinceMs = this.#lookedAt === null ? paceMs : this.clock.monotonicMs() - this.#lookedAt
    this.#lookTimer = this.clock.after(Math.max(0, paceMs - sinceMs), () => void this.#look())
  }

  #look(): Promise<void> {
    this.#lookTimer?.()
    if (this.#looking !== null) return this.#looking
    const startedAt = this.clock.monotonicMs()
    this.#beganAt = startedAt
    this.#looking = this.#during(() => this.#lookAtAll(startedAt))
      .then(
        () => this.#looked(startedAt, false),
        () => this.#looked(startedAt, true),
      )
      .catch(this.#onError)
      .finally(() => {
        this.#looking = null
        this.#plan()
      })
    return this.#looking
  }

  async #during(look: () => Promise<unknown>): Promise<void> {
    this.#table.lookBegins()
    try {
      await look()
    } finally {
      this.#table.lookEnded()
    }
  }

  #looked(startedAt: number, isStale: boolean): void {
    this.#isStale = isStale
    if (!isStale && !this.#isTruncated) this.#completeSince = startedAt
    this.#lookedAt = this.clock.monotonicMs()
    // One that failed in the end has cost as much.
    this.#lookMs = this.#lookedAt - startedAt
    // Of a look that failed, some names are as they were before it.
    this.#publish(isStale ? null : startedAt)
  }

  async #lookAtAll(startedAt: number): Promise<void> {
    const unseen = new Set(this.#table.names())
    const others = this.#lookedAt
    const namesMax = this.#options.namesMax ?? NAMES_MAX
    let count = 0
    this.#isTruncated = false
    for await (const view of this.#options.list('')) {
      if (this.#isClosed) return
      unseen.delete(view.resource)
      this.#table.saw(view, startedAt, this.clock.monotonicMs(), others)
      count += 1
      if (count >= namesMax) {
        this.#isTruncated = true
        break
      }
      if (count % NAMES_BETWEEN_TURNS === 0) {
        // A store that answers without waiting would otherwise keep everybody else from being served.
        await new Promise((resolve) => setImmediate(resolve))
      }
    }
    const endedAt = this.clock.monotonicMs()
    for (const name of unseen) {
      // Names beyond the bound are not gone: nothing is known of them.
      this.#table.saw(emptyView(name), startedAt, endedAt, this.#isTruncated ? null : others)
    }
  }

  async #lookAtSome(names: readonly string[]): Promise<void> {
    const askedAt = this.clock.monotonicMs()
    const look = async (name: string): Promise<void> => {
      try {
        const view = await this.#options.inspect(name)
        this.#table.saw(view, askedAt, this.clock.monotonicMs(), this.#lookedAt)
      } catch {
        // The next look at everything comes anyway, and says whether the store is silent.
      }
    }
    await this.#during(() => Promise.all(names.map(look)))
  }

  /** `lookBeganAt`: of the look at everything that has just ended, if it is one. */
  #publish(lookBeganAt: number | null): void {
    const activities = this.#activities
    const change = this.#table.takeChange()
    this.#activities = []
    const isNews = change.changed.length + change.removed.length > 0
    const { waiters } = this.#table
    const isOther = this.#deadlocks.take({ views: () => this.#table.views(), waiters, isNews, lookBeganAt })
    for (const listener of this.#listeners) {
      if (isNews) listener.onChange(change)
      if (activities.length > 0) listener.onActivity(activities)
      if (isOther) listener.onDeadlocks()
    }
  }

  #planStatistics(): void {
    this.#statisticsTimer = this.clock.after(STATISTICS_MS, () => {
      this.#planStatistics()
      const statistics: Statistics = {
        at: new Date(this.clock.wallMs()).toISOString(),
        locks: this.#table.size,
        holders: this.#table.holders,
        waiters: this.#table.waiters,
        ...this.#tally.take(),
        lookMs: this.#lookMs === null ? null : Math.round(this.#lookMs),
        stale: this.#isStale,
        truncated: this.#isTruncated,
      }
      for (const listener of this.#listeners) listener.onStatistics(statistics)
      // Where names cannot be listed no look comes that would bring it along.
      if (this.#activities.length > 0) this.#publish(null)
    })
  }
}
