/** Idempotent runs: the work, its steps, its signal and the codec are callbacks of the caller. */

import type { RunContext } from 'holdfast/idempotency'
import { freshName } from '../subject.js'
import { deferred, LIMIT_MS, messageOf, within } from '../waiting.js'
import type { Scene } from './context.js'
import { targetOf } from './lifetime-cases.js'

const MAX_RUN_MS = 150

export async function idempotentCallers({ contexts, subject }: Scene, url: string | null): Promise<void> {
  if (url === null) return
  const { idempotency: entry } = subject.library
  const idempotency = await contexts.as('opener of records', () => entry.connectIdempotency(url))
  try {
    const run = (me: string, key: string): Promise<unknown> =>
      idempotency.run(
        targetOf(key),
        async ({ step }: RunContext) => {
          contexts.expect(me, 'work of an idempotent run()')
          await step('one', () => contexts.expect(me, 'step of an idempotent run()'))
          return 'done'
        },
        {
          codec: {
            encode: (value) => {
              contexts.expect(me, 'codec of an idempotent run()')
              return JSON.stringify(value ?? null)
            },
            decode: (text) => {
              contexts.expect(me, 'codec of an idempotent run()')
              return JSON.parse(text) as unknown
            },
          },
          inFlight: { waitMs: LIMIT_MS },
        },
      )
    const keys = Array.from({ length: subject.sizes.callers }, () => freshName('record'))
    const first = keys.map((key) => contexts.as('caller of an idempotent run', (me) => run(me, key)))
    const lost = contexts.as('caller of a run that takes too long', async (me) => {
      let outcome = 'the run ended well'
      const aborted = deferred<void>()
      const work = async ({ signal }: RunContext): Promise<void> => {
        await contexts.onAbort(me, 'an idempotent run() with maxRunMs', signal)
        aborted.resolve()
      }
      await idempotency
        .run(targetOf(freshName('long')), work, { maxRunMs: MAX_RUN_MS })
        .catch((error: unknown) => {
          outcome = messageOf(error)
        })
      if ((await within(aborted.promise.then(() => true))) === null) {
        contexts.findings.push({ what: 'abort listener, maxRunMs', message: `was never called: ${outcome}` })
      }
    })
    await Promise.all([...first, lost])
  } finally {
    await idempotency.close()
  }
}
