import { hash } from 'node:crypto'
import { InvalidInputError } from './errors.js'

export const NAME_BYTES_MAX = 512
export const NOTE_BYTES_MAX = 1_024

/** C0, DEL and C1: they break protocols, logs and terminals, and nobody types them on purpose. */
// oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/

const PRINTABLE = /^[ -~]*$/

/** Accepts 1 to 512 UTF-8 bytes, or as many as the store takes, of well-formed text without control characters. */
export function checkName(value: unknown, what = 'name', bytesMax = NAME_BYTES_MAX): string {
  const text = checkText(value, what, bytesMax)
  if (text.length === 0) throw new InvalidInputError(what, `a text of 1 to ${bytesMax} bytes`, value)
  return text
}

/** The same rules as for a name, but it may be empty, and longer. */
export function checkNote(value: unknown, what = 'note'): string {
  return checkText(value, what, NOTE_BYTES_MAX)
}

function checkText(value: unknown, what: string, bytesMax: number): string {
  // The length in UTF-16 units is a lower bound of the bytes: it turns huge inputs away before they are scanned.
  if (typeof value !== 'string' || value.length > bytesMax) throw tooLong(value, what, bytesMax)
  // What nearly every name is made of: one byte for each character, and nothing to look for.
  if (PRINTABLE.test(value)) return value
  if (hasControl(value)) throw new InvalidInputError(what, 'a text without control characters', value)
  if (!value.isWellFormed()) throw new InvalidInputError(what, 'a text without lone surrogates', value)
  if (Buffer.byteLength(value) > bytesMax) throw tooLong(value, what, bytesMax)
  return value
}

function tooLong(value: unknown, what: string, bytesMax: number): InvalidInputError {
  return new InvalidInputError(what, `a text of at most ${bytesMax} bytes`, value)
}

/** Whether there is a character in it that breaks protocols, logs and terminals. */
export function hasControl(text: string): boolean {
  return CONTROL.test(text)
}

/** What stands for a claim where others can see it: nobody can tell the id from it, which is a secret. */
export function digestOf(claimId: string): string {
  return hash('sha256', claimId, 'hex')
}

/** A public reference of a claim id: enough to tell claims apart, useless for releasing one. Its digest begins like it. */
export function refOf(claimId: string): string {
  return digestOf(claimId).slice(0, 12)
}
