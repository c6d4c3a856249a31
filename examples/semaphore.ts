// At most ten units at once; a large job takes four of them, and is not starved by small ones.
import { connect } from 'holdfast'

await using locks = await connect('memory:example')
const slots = locks.semaphore('encoders', 10)

await Promise.all([
  slots.run(() => console.log('a small job')),
  slots.run(() => console.log('a large job'), { permits: 4, note: 'a feature film' }),
])
