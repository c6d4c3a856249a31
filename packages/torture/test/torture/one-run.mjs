// @ts-check
// One torture run, on sqlite unless told otherwise, in a process of its own, as the tests ask for it. Ctrl-C ends it in order.
/** By a path that is made here: what is built is no source, and is not looked at by the checks of types. */
const built = new URL('../../dist/index.js', import.meta.url).href
const { definitionFor, runTorture } = await import(built)

const {
  broken = null,
  faults = null,
  failures = null,
  store = 'sqlite',
  ...options
} = JSON.parse(process.argv[2] ?? '{}')
const stopping = new AbortController()
process.once('SIGINT', () => stopping.abort(new Error('interrupted')))
const stage = definitionFor(store)
if (stage === undefined) throw new Error('There is no such stage.')

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
    { stage, faults, failures, broken, history: null, report: null, prefix: 'test:', repeat: '', ...options },
    stopping.signal,
    (/** @type {object} */ progress) => void tell({ progress }),
  )
  await tell({ outcome })
} catch (error) {
  await tell({ error: String(error) })
}
process.disconnect?.()
