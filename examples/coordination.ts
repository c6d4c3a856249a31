// The same lock as programs in other languages take. STORE_URL says where, for example one of these:
//
//     zookeeper://127.0.0.1:2181/locks    Apache Curator: new InterProcessMutex(client, "/locks/orders")
//     etcd://127.0.0.1:2379               etcdctl lock orders
//     consul://127.0.0.1:8500             consul lock orders sleep 60
import { AcquireTimeoutError, connect } from 'holdfast'

const locks = await connect(process.env['STORE_URL'] ?? 'zookeeper://127.0.0.1:2181/locks')
const { safety, fencing, fair } = locks.guarantees
console.log(`safety ${safety}, fences ${fencing}, ${fair ? 'in order of arrival' : 'in no order'}`)

try {
  await locks.mutex('orders', { note: 'example' }).run(
    async (hold) => {
      console.log(`held with fence ${hold.fence}; whoever else wants it, in whatever language, waits`)
    },
    { waitMs: 10_000 },
  )
} catch (error) {
  if (!(error instanceof AcquireTimeoutError)) throw error
  console.log(`somebody else has it: ${error.message}`)
}

await locks.close()
