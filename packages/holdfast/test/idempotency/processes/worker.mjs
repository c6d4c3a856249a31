// @ts-check
// One process among several that get the same requests. It is told what to run, says what came of it, and dies where it is
// told to. Effects and completions are written down where the store has no part in it.

import { subscribe } from 'node:diagnostics_channel'
import { appendFileSync } from 'node:fs'
import process, { argv } from 'node:process'
import { connectIdempotency, IDEMPOTENCY_CHANNEL } from 'holdfast/idempotency'

/**
 * @typedef {'after-claim' | 'in-the-middle' | 'after-effect' | 'after-completion'} Failpoint
 * @typedef {{
 *   readonly id: number,
 *   readonly target: import('holdfast/idempotency').Target,
 *   readonly options?: import('holdfast/idempotency').RunOptions<unknown>,
 *   readonly failpoint?: Failpoint,
 *   readonly reconciles?: boolean,
 *   readonly waits?: 'until told' | 'until aborted',
 * }} Order
 */

const [url = '', leaseMs = '', effects = '', completions = ''] = argv.slice(2)

subscribe(IDEMPOTENCY_CHANNEL, (message) => {
  const event = /** @type {import('holdfast/idempotency').IdempotencyEvent} */ (message)
  if (event.type === 'completed') appendFileSync(completions, `${event.ref}\n`)
})

const idempotency = await connectIdempotency(url, { leaseMs: Number(leaseMs) })
/** @type {Map<number, () => void>} */
const waiting = new Map()

/** What is said right before a death would be lost with it, so it is waited for. @param {unknown} message */
function say(message) {
  return new Promise((resolve) => process.send?.(message, undefined, {}, resolve))
}

/** Nothing runs after this: no handler, no flush, no farewell to the store. */
function die() {
  process.kill(process.pid, 'SIGKILL')
  // The signal takes a moment, and nothing must happen in it.
  return new Promise(() => {})
}

/** The same clock for all processes of a machine. */
function nowMs() {
  return Number(process.hrtime.bigint() / 1_000_000n)
}

/** @param {Order} order */
async function run({ id, target, options, failpoint, reconciles, waits }) {
  const onAbandoned = reconciles ? () => ({ complete: 'reconciled' }) : options?.onAbandoned
  const calledAt = nowMs()
  const outcome = await idempotency.run(
    target,
    async (context) => {
      const { attempt, fence, previous, signal } = context
      const begunAt = nowMs()
      signal.addEventListener('abort', () => {
        appendFileSync(effects, `aborted ${target.key} ${attempt} ${nowMs()}\n`)
        process.send?.({ id, kind: 'aborted', code: String(Reflect.get(signal.reason, 'code')) })
      })
      await say({ id, kind: 'began', attempt, fence: String(fence) })
      // Only the first attempt meets with an accident: the next one has to get through.
      const accident = attempt === 1 ? failpoint : undefined
      if (accident === 'after-claim') await die()
      const step = await context.step('half', () => process.pid)
      if (accident === 'in-the-middle') await die()
      if (waits === 'until told') await new Promise((resolve) => waiting.set(id, () => resolve(undefined)))
      if (waits === 'until aborted' && !signal.aborted) {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
      }
      appendFileSync(effects, `effect ${target.key} ${attempt} ${fence} ${calledAt} ${begunAt}\n`)
      if (accident === 'after-effect') await die()
      return { by: process.pid, attempt, step, previous: previous?.attempt ?? null }
    },
    { ...options, ...(onAbandoned === undefined ? {} : { onAbandoned }) },
  )
  if (failpoint === 'after-completion' && !outcome.replayed) await die()
  const { value, replayed, attempt, fence } = outcome
  process.send?.({ id, kind: 'done', value, replayed, attempt, fence: String(fence) })
}

process.on('message', (message) => {
  const order =
    /** @type {Order | { readonly id: number, readonly goOn: true } | { readonly close: true }} */ (message)
  if ('close' in order) {
    void idempotency.close().then(() => process.disconnect())
    return
  }
  if ('goOn' in order) {
    waiting.get(order.id)?.()
    return
  }
  run(order).catch((error) => {
    process.send?.({
      id: order.id,
      kind: 'failed',
      code: error?.code ?? null,
      message: String(error?.message),
    })
  })
})
process.send?.({ id: -1, kind: 'ready' })
