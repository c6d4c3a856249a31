// Only one copy of this program at a time runs the work below, however many are started.
import { connect } from 'holdfast'

const locks = await connect('sqlite:./example-locks.db')

await locks.mutex('nightly-report').run(async (hold) => {
  console.log(`This process holds the lock, with fence ${hold.fence}.`)
})

await locks.close()
