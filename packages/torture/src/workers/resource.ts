/**
 * A resource that others write to through a socket, and that guards itself with a fence gate.
 *
 *     resource.js SOCKET
 */

import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { FenceGate } from 'holdfast/fencing'
import { argument, codeOf, tell } from './shared/parent.js'

const gate = new FenceGate()

/** What becomes of one write: 'accepted', or the code of the error. */
function write(fence: string): string {
  try {
    gate.pass('resource', BigInt(fence))
    return 'accepted'
  } catch (error) {
    return codeOf(error)
  }
}

const server = createServer((socket) => {
  createInterface({ input: socket }).on('line', (line) => {
    socket.write(`${write(line)}\n`)
  })
})
server.listen(argument(0), () => {
  void tell({ kind: 'ready' })
})
