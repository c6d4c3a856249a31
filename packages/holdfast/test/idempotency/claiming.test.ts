// @module-tag effects
/** Claims that the store answers with a mismatch, and what goes wrong after that. */

import { describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { BackendUnavailableError } from '../../src/core/errors.js'
import { fingerprintOf } from '../../src/idempotency/fingerprint.js'
import { FingerprintKeys } from '../../src/idempotency/fingerprint-keys.js'
import { createIdempotency } from '../../src/idempotency/idempotency.js'
import { recordKeyOf } from '../../src/idempotency/keys.js'
import { Gate } from './contract/bench.js'
import { type Around, RelayRecords } from './contract/relay-records.js'

const target = { scope: { tenant: 't', operation: 'charge' }, key: 'k', input: { amount: 1 } }
const other = { ...target, input: { amount: 2 } }
const recordKey = recordKeyOf('default', target)

describe('with `storeDown: "run-unprotected"`, work does not run when the store fails after it has answered', () => {
  const silent = (): Promise<never> => new Promise(() => undefined)
  const down = (): never => {
    throw new BackendUnavailableError('The store is down.', {})
  }

  it.each([
    ['times out', silent, 'OUTCOME_UNKNOWN'],
    ['fails', down, 'BACKEND_UNAVAILABLE'],
  ])('that the key has another input, and the read of the record %s', async (_how, read, code) => {
    const inner = memoryRecords()
    await using first = await createIdempotency(inner, { allowVolatile: true })
    await first.run(target, () => 'done')
    const options = { allowVolatile: true, requestMs: 200, storeDown: 'run-unprotected' } as const
    await using client = await createIdempotency(new RelayRecords(inner, { read }), options)
    let runs = 0
    await expect(client.run(other, () => ++runs)).rejects.toMatchObject({ code })
    expect(runs).toBe(0)
  })

  it('that another call is at work', async () => {
    const inner = memoryRecords()
    await using first = await createIdempotency(inner, { allowVolatile: true })
    const [begun, ending] = [new Gate(), new Gate()]
    const running = first.run(target, async () => {
      begun.open()
      await ending.passed
    })
    await begun.passed
    let claims = 0
    const claim: Around['claim'] = (_ask, next) => (++claims === 1 ? next() : down())
    const options = { allowVolatile: true, storeDown: 'run-unprotected' } as const
    await using client = await createIdempotency(new RelayRecords(inner, { claim }), options)
    let runs = 0
    const waiting = client.run(target, () => ++runs, { inFlight: { waitMs: 60_000 } })
    await expect(waiting).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(runs).toBe(0)
    ending.open()
    await running
  })
})

describe('a record that is made after one with an unknown fingerprint key is gone', () => {
  const [THEIRS, OURS] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const own = fingerprintOf(target.input, 'json', recordKey, new FingerprintKeys([OURS]))?.text

  /** A client that finds the record of another one at work. `around` may remove it. */
  async function takenBy(around: (forget: () => Promise<unknown>) => Around) {
    const inner = memoryRecords()
    const first = await createIdempotency(inner, { fingerprintKey: THEIRS, allowVolatile: true })
    const [begun, ending] = [new Gate(), new Gate()]
    const running = first.run(target, async () => {
      begun.open()
      await ending.passed
    })
    await begun.passed
    const forget = (): Promise<boolean> => inner.forget(recordKey)
    const relay = new RelayRecords(inner, around(forget))
    const client = await createIdempotency(relay, { fingerprintKey: OURS, allowVolatile: true })
    const end = async (): Promise<void> => {
      ending.open()
      await running
      await client.close()
      await first.close()
    }
    return { client, relay, forget, end }
  }

  it('has the fingerprint of its own key when it disappears during the wait', async () => {
    const { client, relay, forget, end } = await takenBy(() => ({}))
    const waiting = client.run(target, async () => (await relay.read(recordKey))?.fingerprint, {
      inFlight: { waitMs: 60_000 },
    })
    await until('it waits', () => relay.calls.filter((call) => call === 'claim').length > 2)
    await forget()
    expect(await waiting).toMatchObject({ value: own, replayed: false })
    await expect(client.run(other, () => 'ran')).rejects.toMatchObject({ code: 'KEY_REUSED' })
    await end()
  })

  it('has the fingerprint of its own key when it disappears before the next claim', async () => {
    const { client, relay, end } = await takenBy((forget) => ({
      claim: async (ask, next) => {
        if (ask.fingerprint !== own) await forget()
        return await next()
      },
    }))
    const outcome = await client.run(target, async () => (await relay.read(recordKey))?.fingerprint)
    expect(outcome).toMatchObject({ value: own, replayed: false })
    await end()
  })
})
