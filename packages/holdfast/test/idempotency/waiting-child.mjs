// @ts-check
// Runs work that nothing keeps the process alive for, and waits for it with a second call of the same key. The process must not
// end before the second call has its result.
import { argv, stdout } from 'node:process'
import { connectIdempotency } from 'holdfast/idempotency'

const idempotency = await connectIdempotency(argv[2] ?? '', { allowVolatile: true })
const target = { scope: { tenant: 't', operation: 'o' }, key: 'k' }
const first = idempotency.run(
  target,
  () => new Promise((resolve) => setTimeout(() => resolve('result'), 500).unref()),
)
const second = idempotency.run(target, () => 'ran twice', { inFlight: { waitMs: 60_000 } })
void second.then(({ value, replayed }) => stdout.write(`${value} ${replayed}\n`))
void first
