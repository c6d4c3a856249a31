/** Names and values as messages of errors show them. */

import type { HolderNote, Shape } from './backend.js'

/** What a value was, short and printable, whatever it is: input from outside must not reach a message raw. */
export function describe(value: unknown): string {
  if (typeof value === 'string') {
    return value.length > 40
      ? `${printable(value.slice(0, 40))}… (${value.length} characters)`
      : printable(value)
  }
  if (value === null || ['number', 'boolean', 'undefined'].includes(typeof value)) return String(value)
  if (typeof value === 'bigint')
    return value > 2n ** 64n || value < -(2n ** 64n) ? 'a huge bigint' : `${value}n`
  // A symbol stands for a value that must not be shown, and its description says what may be.
  if (typeof value === 'symbol') return value.description ?? 'a symbol'
  return Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`
}

/** Names are printable by rule, but quotes, backslashes and invisible characters in them still need care in a message. */
export function quote(name: string | null | undefined): string {
  return name === null || name === undefined ? 'the resource' : printable(name)
}

/** What JSON leaves as it is and a terminal or a reader would stumble over: DEL, C1, and what turns or hides text. */
const UNSEEN = /[\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]/g

function printable(text: string): string {
  const escape = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(text.toWellFormed()).replace(UNSEEN, escape)
}

export function heldBy(holder: HolderNote | null): string {
  if (holder === null) return ''
  const { pid } = holder.owner
  // The store is outside as well: whatever it says who holds, is printed with care.
  const host = printable(holder.owner.host).slice(1, -1)
  return `; held by process ${pid} on ${host}${holder.note === null ? '' : ` (${printable(holder.note)})`}`
}

export function describeWeight({ kind }: Shape, weight: number): string {
  if (kind === 'read-write') return weight === 1 ? 'as a reader' : 'as a writer'
  return `with ${weight} ${weight === 1 ? 'permit' : 'permits'}`
}

export function describeShape(shape: Shape): string {
  return shape.kind === 'semaphore' ? `a semaphore of ${shape.limit}` : `a ${shape.kind} lock`
}
