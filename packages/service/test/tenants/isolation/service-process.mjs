// @ts-check
// A service in a process of its own, so that its memory can be measured. Run with --expose-gc.

import { createInterface } from 'node:readline'

const [module = '', options = '{}'] = process.argv.slice(2)
const { createService } = await import(module)
const service = await createService(JSON.parse(options))
console.log(JSON.stringify({ url: await service.listen() }))

/** Two collections with a turn between them: what the first one finalizes, the second one frees. */
async function memory() {
  for (let round = 0; round < 2; round += 1) {
    globalThis.gc?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { heapUsed, external, rss } = process.memoryUsage()
  return { heapUsed, external, rss, cpuMs: process.cpuUsage().user / 1_000 }
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line === 'memory') console.log(JSON.stringify(await memory()))
  if (line === 'end') break
}
await service.close({ drainMs: 0 })
process.exit(0)
