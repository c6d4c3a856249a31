// A ready client for the locks, a guard for the data, and a lock that counts only when a replica has it. It needs a Redis
// server with a replica: REDIS_PORT says where, and without REPLICAS=0 nothing is granted that no replica has confirmed.
import { createLocks, StaleFenceError } from 'holdfast'
import { redisGuard } from 'holdfast/fencing'
import { redisBackend } from 'holdfast/redis'
import { Redis } from 'ioredis'

const port = Number(process.env['REDIS_PORT'] ?? 6379)
const waitReplicas = Number(process.env['REPLICAS'] ?? 1)

// Waiting for replicas holds up its connection, so the locks have one of their own. A command whose fate is unknown is not
// sent again by the client: Holdfast knows when that is right.
const forLocks = new Redis({ port, maxRetriesPerRequest: 0, socketTimeout: 10_000 })
const forData = new Redis({ port })

const locks = await createLocks(redisBackend({ client: forLocks, waitReplicas }), { requireFence: true })
const guard = redisGuard(forData)

async function deposit(fence: bigint, amount: number): Promise<number> {
  // Fence first, then read: from here on, nobody with an older one can write in between.
  await guard.advance('account:7', fence)
  const balance = Number((await forData.get('account:7')) ?? 0) + amount
  await guard.set('account:7', String(balance), fence)
  return balance
}

const earlier = await locks.mutex('account:7').run(async ({ fence }) => {
  console.log(`balance ${await deposit(fence, 10)}, written with fence ${fence}`)
  return fence
})

await locks.mutex('account:7').run(async ({ fence }) => {
  console.log(`balance ${await deposit(fence, 5)}, written with fence ${fence}`)
  // Somebody who held the lock before, and slept through the end of it, comes too late.
  await deposit(earlier, 1_000).catch((error: unknown) => {
    if (!(error instanceof StaleFenceError)) throw error
    console.log(`refused: ${error.message}`)
  })
})

await locks.close()
forLocks.disconnect()
forData.disconnect()
