import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'

/** Writes to the resource behind the socket, and gives back what it said: 'accepted' or the code of an error. */
export async function guardedWrite(socketPath: string, fence: bigint): Promise<string> {
  const socket = connect(socketPath)
  await once(socket, 'connect')
  const lines = createInterface({ input: socket })
  socket.write(`${fence}\n`)
  const [answer] = (await once(lines, 'line')) as [string]
  socket.destroy()
  return answer
}
