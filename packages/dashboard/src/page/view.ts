import type { Api } from './api.js'
import type { Holds } from './holds.js'
import type { Notices } from './notices.js'
import type { State } from './state.js'

/** What every view works with. */
export interface Stage {
  readonly api: Api
  readonly state: State
  readonly holds: Holds
  readonly notices: Notices
}

export interface View {
  readonly element: HTMLElement
  readonly title: string
  /** Something of the state changed. It is called once a frame at most. */
  update(): void
  /** A second went by. */
  tick(now: number): void
  close(): void
}

export const lockHref = (name: string): string => `#/lock/${encodeURIComponent(name)}`
