// Both accounts or none, in one order everywhere, so that two transfers in opposite directions do not deadlock.
import { AcquireTimeoutError, connect } from 'holdfast'

await using locks = await connect('memory:example')

try {
  await locks.all(['account:2', 'account:1']).run(
    async (holds) => {
      console.log(`fences: ${[...holds.fences].map(([name, fence]) => `${name} ${fence}`).join(', ')}`)
    },
    { waitMs: 2_000 },
  )
} catch (error) {
  if (!(error instanceof AcquireTimeoutError)) throw error
  console.log('busy; try again later')
}
