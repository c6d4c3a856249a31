/**
 * The fenced register of a torture run.
 *
 *     torture-register.js SETUP
 */

import { openSync, writeSync } from 'node:fs'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { FenceGate } from 'holdfast/fencing'
import { nowMicros } from '../history/recorder.js'
import type { RegisterAnswer, RegisterEntry, RegisterRequest } from '../oracles/register.js'
import type { RegisterSetup } from '../torture/protocol.js'
import { argument, codeOf, tell } from './shared/parent.js'

const setup = JSON.parse(argument(0)) as RegisterSetup
const gate = new FenceGate()
const log = openSync(setup.log, 'a')
const values = new Map<string, string>()
const sets = new Map<string, readonly string[]>()

function answer(request: RegisterRequest): RegisterAnswer {
  const { id, k } = request
  const error = request.op === 'look' ? null : guarded(request)
  if (error === null && request.op === 'write') values.set(k, request.value)
  if (error === null && request.op === 'replace') sets.set(k, request.elements)
  const shown = error === null && request.op !== 'replace'
  return {
    id,
    error,
    value: shown ? (values.get(k) ?? null) : null,
    elements: shown ? (sets.get(k) ?? []) : [],
  }
}

function guarded({ op, k, fence, who }: Exclude<RegisterRequest, { op: 'look' }>): string | null {
  let error: string | null = null
  try {
    gate.pass(k, BigInt(fence))
  } catch (reason) {
    error = codeOf(reason)
  }
  const entry: RegisterEntry = {
    t: nowMicros(),
    k,
    fence,
    who,
    write: op !== 'read',
    accepted: error === null,
  }
  writeSync(log, `${JSON.stringify(entry)}\n`)
  return error
}

/** A worker that is killed in the middle of a line leaves half a request, which never was one. */
function parse(line: string): RegisterRequest | null {
  try {
    return JSON.parse(line) as RegisterRequest
  } catch {
    return null
  }
}

const server = createServer((socket) => {
  const lines = createInterface({ input: socket })
  lines.on('line', (line) => {
    const request = parse(line)
    if (request !== null) socket.write(`${JSON.stringify(answer(request))}\n`)
  })
  // A worker that is killed takes its end of the line with it.
  lines.on('error', () => socket.destroy())
  socket.on('error', () => socket.destroy())
})
// Ctrl-C reaches every process of a terminal; the run ends its processes itself.
process.on('SIGINT', () => undefined)
process.on('disconnect', () => process.exit(0))
server.listen(setup.socket, () => {
  void tell({ kind: 'ready' })
})
