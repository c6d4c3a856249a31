import type { ClaimView, Kind, Owner, Shape } from './contract.js'

/** A length of time as people read it at a glance: two units at most. */
export function duration(ms: number): string {
  const s = Math.max(0, ms) / 1000
  if (s < 1) return `${Math.round(Math.max(0, ms))} ms`
  if (s < 10) return `${(Math.floor(s * 10) / 10).toFixed(1)} s`
  return seconds(ms)
}

/** The same in whole seconds, for what counts down or up before the eyes of the reader. */
export function seconds(ms: number): string {
  const s = Math.floor(Math.max(0, ms) / 1000)
  if (s < 60) return `${s} s`
  if (s < 3_600) return pair(s, 60, 'm', 1, 's')
  if (s < 86_400) return pair(s, 3_600, 'h', 60, 'm')
  return pair(s, 86_400, 'd', 3_600, 'h')
}

function pair(total: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  const rest = Math.floor((total % large) / small)
  const first = `${Math.floor(total / large)} ${largeUnit}`
  return rest === 0 ? first : `${first} ${rest} ${smallUnit}`
}

export function kindWord(shape: Shape | null): string {
  if (shape === null) return 'free'
  return shape.kind === 'semaphore' ? `semaphore ${shape.limit}` : shape.kind
}

/** How a claim uses a lock of this kind, where that is not the same for all. */
export function useWord(shape: Shape | null, claim: ClaimView): string | null {
  if (shape?.kind === 'read-write') return claim.weight > 1 ? 'write' : 'read'
  if (shape?.kind === 'semaphore' && claim.weight > 1) return `${claim.weight} permits`
  return null
}

/** The library writes the piece of work that a claim belongs to behind the name of its client. */
const FLOW = /^([^~]{0,32})~[ds]([0-9a-f]{16})(?:-[0-9a-z]{1,8})*$/

/** What the client calls itself, and the beginning of the piece of work, which is the same for all that it takes. */
export function readClient(text: string): { readonly client: string; readonly flow: string | null } {
  const [, client = text, flow = null] = FLOW.exec(text) ?? []
  return { client, flow }
}

/** What stands behind the host: the process, where there is one, what it calls itself, and a hint of the work. */
export function processText(owner: Owner): string {
  const { client, flow } = readClient(owner.client)
  const parts = [owner.pid > 0 ? String(owner.pid) : '', client, flow === null ? '' : `#${flow.slice(0, 4)}`]
  return parts.filter((part) => part !== '').join(' · ')
}

/** Who, as one text: where it runs, its process where there is one, and what it calls itself. */
export function ownerText(owner: Owner): string {
  return [owner.host, processText(owner)].filter((part) => part !== '').join(' · ')
}

/** What belongs together in a line of time: everything of one client. */
export function clientKey(owner: Owner): string {
  return JSON.stringify([owner.host, owner.pid, readClient(owner.client).client])
}

/** What can wait for one thing at a time: a piece of work where it says so, also across processes; else a client. */
export function flowKey(owner: Owner): string {
  return readClient(owner.client).flow ?? clientKey(owner)
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`
}

export const KINDS: readonly Kind[] = ['mutex', 'semaphore', 'read-write']
