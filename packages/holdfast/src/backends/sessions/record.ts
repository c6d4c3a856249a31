/** What stands in a node beside its name: for people to see, and the weight of a claim that became lighter. */

import type { Claim, HolderNote } from '../../core/backend.js'
import { readWho, writeWho } from '../shared/who.js'

export interface NodeRecord {
  readonly weight: number | null
  readonly who: HolderNote | null
}

/** A number and a text, with a line end between them: nothing else ever has to be read from it. */
export function writeRecord({ weight, owner, note }: Claim): Buffer {
  return Buffer.from(`${weight}\n${writeWho(owner, note)}`)
}

/** Whatever it is, it is read: other programs leave their own things there. */
export function readRecord(data: Buffer): NodeRecord {
  const [first = '', ...rest] = data.toString('utf8').split('\n')
  const weight = /^[1-9]\d{0,9}$/.test(first) ? Number(first) : null
  return { weight, who: weight === null ? null : readWho(rest.join('\n')) }
}
