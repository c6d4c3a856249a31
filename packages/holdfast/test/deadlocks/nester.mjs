// @ts-check
// Takes names one inside the other, each when it is told to by a line on its standard input, and tells what became of it.
import { argv, pid, stdin, stdout } from 'node:process'
import { createInterface } from 'node:readline'
import { connect, DeadlockError } from 'holdfast'

const [url = '', deadlocks = '', ...names] = argv.slice(2)
const mode = deadlocks === 'detect' || deadlocks === 'show' ? deadlocks : 'off'
const locks = await connect(url, {
  deadlocks: mode,
  deadlockCheckMs: 300,
  outageMs: 60_000,
  requestMs: 30_000,
})
const lines = createInterface({ input: stdin })[Symbol.asyncIterator]()

/** @param {object} message */
const tell = (message) => stdout.write(`${JSON.stringify({ pid, ...message })}\n`)

/**
 * @param {readonly string[]} left
 * @returns {Promise<void>}
 */
async function enter([name, ...inner]) {
  if (name === undefined) return
  await lines.next()
  tell({ kind: 'asks', name })
  await locks.mutex(name).run(async () => {
    tell({ kind: 'holds', name })
    await enter(inner)
  })
}

tell({ kind: 'ready' })
try {
  await enter(names)
  tell({ kind: 'done' })
} catch (error) {
  const cycle = error instanceof DeadlockError ? error.cycle?.map(({ waitsFor }) => waitsFor) : null
  tell({ kind: 'failed', code: Object(error).code, message: String(Object(error).message), cycle })
}
await locks.close()
stdin.destroy()
