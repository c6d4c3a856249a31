/** Who takes part: the bare client, this library, and its peers. */

import { ours } from './ours.js'
import { peers } from './peers.js'
import { raw } from './raw.js'
import type { Subject } from './subject.js'

export const subjects: readonly Subject[] = [...raw, ...ours, ...peers]

export function subjectNamed(name: string): Subject {
  const found = subjects.find((subject) => subject.name === name)
  if (found === undefined) throw new Error(`Nobody takes part under the name '${name}'.`)
  return found
}
