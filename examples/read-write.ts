// Readers share, a writer is alone, and a writer can become a reader without letting another writer in between.
import { connect } from 'holdfast'

await using locks = await connect('memory:example')
const catalogue = locks.readWrite('catalogue')

await catalogue.read().run(async () => {
  console.log('reading beside other readers')
})

const writing = await catalogue.write().acquire({ waitMs: 5_000 })
console.log(`writing alone, with fence ${writing.fence}`)
await using reading = await writing.downgrade()
reading.assertHeld()
