import type { EventName, Micros } from '../history/format.js'
import type { Call, Hold } from './calls.js'

/** One caller of one resource, as the books stand. */
export interface Caller {
  readonly name: string
  /** When its process was last heard of; all callers of a process share it. */
  readonly heard: { at: Micros }
  /** Calls that have not come back, each of which does something else. They are one or two, so nothing finds them faster. */
  readonly open: Call[]
  /** What it holds, the latest last; `depth` counts acquisitions of a reentrant hold. */
  readonly holding: { readonly hold: Hold; depth: number }[]
  /** What was over before it was released; a release that comes after all is about one of these. */
  readonly former: { readonly hold: Hold; depth: number }[]
}

export function openOf(caller: Caller, f: EventName): Call | undefined {
  return caller.open.find((call) => call.f === f)
}

/** Takes it out as well. */
export function takeOpen({ open }: Caller, f: EventName): Call | undefined {
  for (let index = open.length - 1; index >= 0; index--) {
    const call = open[index]
    if (call?.f !== f) continue
    if (index === open.length - 1) open.pop()
    else open.splice(index, 1)
    return call
  }
  return undefined
}
