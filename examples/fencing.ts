// A holder that was paused can come back and write. Only the resource can refuse that: it checks the fence.
import { connect, StaleFenceError } from 'holdfast'
import { FenceGate } from 'holdfast/fencing'

await using locks = await connect('memory:example')
const gate = new FenceGate()
let balance = 0

function write(fence: bigint, value: number): void {
  gate.pass('account:7', fence)
  balance = value
}

const slow = await locks.mutex('account:7').acquire({ ttlMs: 100, renew: false })
await new Promise((resolve) => setTimeout(resolve, 200))
await using next = await locks.mutex('account:7').acquire()
write(next.fence, 10)
try {
  write(slow.fence, -1)
} catch (error) {
  if (!(error instanceof StaleFenceError)) throw error
  console.log(`refused: ${error.message} The balance is still ${balance}.`)
}
