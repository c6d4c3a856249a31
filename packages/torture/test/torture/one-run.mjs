// @ts-check
// One torture run, on sqlite unless told otherwise, in a process of its own, as the tests ask for it. Ctrl-C ends it in order.
import { once } from 'node:events'
import { Redis } from 'ioredis'

/** By a path that is made here: what is built is no source, and is not looked at by the checks of types. */
const built = new URL('../../dist/index.js', import.meta.url).href
const { definitionFor, runTorture } = await import(built)

const {
  broken = null,
  faults = null,
  failures = null,
  store = 'sqlite',
  emptied = null,
  ...options
} = JSON.parse(process.argv[2] ?? '{}')
const stopping = new AbortController()
process.once('SIGINT', () => stopping.abort(new Error('interrupted')))
const stage = definitionFor(store)
if (stage === undefined) throw new Error('There is no such stage.')

/**
 * The same stage, where the fault of this name also takes all data of the Redis Cluster.
 * @param {import('../../src/stage/stage.js').StageDefinition} definition
 * @param {string} name
 * @returns {import('../../src/stage/stage.js').StageDefinition}
 */
function losingData(definition, name) {
  const start = async () => {
    const started = await definition.start()
    const begin = async (
      /** @type {import('../../src/stage/stage.js').StageFault} */ fault,
      /** @type {() => number} */ random,
    ) => {
      const ongoing = await fault.begin(random)
      const [, addresses = ''] = started.url.split('//')
      const cluster = new Redis.Cluster(addresses.split(',').map((address) => `redis://${address}`))
      await once(cluster, 'ready')
      for (const master of cluster.nodes('master')) await master.flushall()
      await cluster.quit()
      return ongoing
    }
    const faults = started.faults.map((fault) =>
      fault.name === name
        ? { ...fault, begin: (/** @type {() => number} */ random) => begin(fault, random) }
        : fault,
    )
    return { ...started, faults }
  }
  return { ...definition, missing: () => definition.missing(), start }
}

/**
 * What has not left yet would be lost with the process.
 * @param {object} message
 * @returns {Promise<void>}
 */
const tell = (message) =>
  new Promise((resolve) => {
    if (process.connected) process.send?.(message, () => resolve())
    else resolve()
  })

try {
  const outcome = await runTorture(
    {
      stage: emptied === null ? stage : losingData(stage, emptied),
      faults,
      failures,
      broken,
      history: null,
      report: null,
      prefix: 'test:',
      repeat: '',
      ...options,
    },
    stopping.signal,
    (/** @type {object} */ progress) => void tell({ progress }),
  )
  await tell({ outcome })
} catch (error) {
  await tell({ error: String(error) })
}
process.disconnect?.()
