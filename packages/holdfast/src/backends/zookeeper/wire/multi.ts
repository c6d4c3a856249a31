/** Several operations that are done all or not at all. */

import { garbage, refusal } from './errors.js'
import type { JuteReader, JuteWriter } from './jute.js'
import { type Acl, OPCODE, OPEN_ACL, readStat, type Stat, writeAcl } from './records.js'

export type CreateMode =
  | 'persistent'
  | 'persistent-sequential'
  | 'ephemeral'
  | 'ephemeral-sequential'
  | 'container'

export const CREATE_FLAGS: Record<CreateMode, number> = {
  persistent: 0,
  ephemeral: 1,
  'persistent-sequential': 2,
  'ephemeral-sequential': 3,
  container: 4,
}

export type MultiOperation =
  | {
      readonly type: 'create'
      readonly path: string
      readonly data: Buffer
      readonly mode?: CreateMode
      readonly acl?: readonly Acl[]
    }
  | { readonly type: 'delete'; readonly path: string; readonly version?: number }
  | { readonly type: 'setData'; readonly path: string; readonly data: Buffer; readonly version?: number }
  | { readonly type: 'check'; readonly path: string; readonly version?: number }

/** In the order of the operations. Many servers give no stat of a node that a multi has created. */
export type MultiResult =
  | { readonly type: 'create'; readonly path: string; readonly stat: Stat | null }
  | { readonly type: 'delete' }
  | { readonly type: 'setData'; readonly stat: Stat }
  | { readonly type: 'check' }

const END = -1
const ANY_VERSION = -1
const RESULT_BYTES_MIN = 9

export function isSequential(mode: CreateMode): boolean {
  return mode === 'persistent-sequential' || mode === 'ephemeral-sequential'
}

/** The paths of the operations are those of the server. */
export function writeMulti(writer: JuteWriter, operations: readonly MultiOperation[]): void {
  for (const operation of operations) writeOperation(writer, operation)
  header(writer, END, true)
}

function header(writer: JuteWriter, opcode: number, done: boolean): void {
  writer.int(opcode).bool(done).int(-1)
}

function writeOperation(writer: JuteWriter, operation: MultiOperation): void {
  switch (operation.type) {
    case 'create': {
      const mode = operation.mode ?? 'persistent'
      header(writer, mode === 'container' ? OPCODE.createContainer : OPCODE.create2, false)
      writer.text(operation.path).buffer(operation.data)
      writeAcl(writer, operation.acl ?? OPEN_ACL)
      writer.int(CREATE_FLAGS[mode])
      return
    }
    case 'delete':
      header(writer, OPCODE.delete, false)
      writer.text(operation.path).int(operation.version ?? ANY_VERSION)
      return
    case 'setData':
      header(writer, OPCODE.setData, false)
      writer
        .text(operation.path)
        .buffer(operation.data)
        .int(operation.version ?? ANY_VERSION)
      return
    case 'check':
      header(writer, OPCODE.check, false)
      writer.text(operation.path).int(operation.version ?? ANY_VERSION)
      return
  }
}

/** What became of each operation: its result, or the code of its refusal. */
export type MultiOutcome = MultiResult | { readonly type: 'refused'; readonly code: number }

export function readMulti(reader: JuteReader, count: number): MultiOutcome[] {
  const outcomes: MultiOutcome[] = []
  for (;;) {
    if (reader.left < RESULT_BYTES_MIN) throw garbage('the answer to a multi is cut off')
    const [opcode, done] = [reader.int(), reader.bool()]
    reader.int()
    if (done) break
    if (outcomes.length === count) throw garbage('the answer to a multi has too many parts')
    outcomes.push(readOutcome(reader, opcode))
  }
  if (outcomes.length !== count) throw garbage('the answer to a multi has too few parts')
  return outcomes
}

function readOutcome(reader: JuteReader, opcode: number): MultiOutcome {
  switch (opcode) {
    case OPCODE.create:
      return { type: 'create', path: reader.text(), stat: null }
    case OPCODE.create2:
    case OPCODE.createContainer:
      return { type: 'create', path: reader.text(), stat: readStat(reader) }
    case OPCODE.delete:
      return { type: 'delete' }
    case OPCODE.setData:
      return { type: 'setData', stat: readStat(reader) }
    case OPCODE.check:
      return { type: 'check' }
    case END:
      return { type: 'refused', code: reader.int() }
    default:
      throw garbage(`the answer to a multi has a part of type ${opcode}`)
  }
}

/** The results, or the refusal of the operation that made all of them fail: those before it carry no code. */
export function resultsOf(
  outcomes: readonly MultiOutcome[],
  operations: readonly MultiOperation[],
): MultiResult[] {
  const results: MultiResult[] = []
  outcomes.forEach((outcome, index) => {
    if (outcome.type !== 'refused') results.push(outcome)
    else if (outcome.code !== 0) {
      const operation = operations[index]
      throw refusal(outcome.code, operation?.type ?? 'multi', operation?.path ?? null, index)
    }
  })
  if (results.length !== operations.length) throw garbage('a multi failed and nobody said why')
  return results
}
