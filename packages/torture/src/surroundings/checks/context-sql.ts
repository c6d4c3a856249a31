/** The work of transactions and of `dedupe` runs in the context of its caller, also where calls wait for each other. */

import { freshName } from '../subject.js'
import type { Scene } from './context.js'
import { sqlPlaceOf } from './sql.js'

const SCOPE = { tenant: 'surroundings', operation: 'context' }

export async function sqlCallers({ subject, contexts }: Scene): Promise<void> {
  const place = await sqlPlaceOf(subject)
  if (place === null) return
  const { dedupe, migrateDedupe } = subject.library.dedupe
  try {
    await migrateDedupe(place.pool)
    const tx = await place.connection()
    await tx.run('BEGIN')
    await Promise.all(
      Array.from({ length: subject.sizes.callers }, () =>
        contexts.as('caller of dedupe', (me) =>
          dedupe(tx.client, { scope: SCOPE, key: freshName('context') }, () => {
            contexts.expect(me, 'work of dedupe')
            return 'done'
          }),
        ),
      ),
    )
    await tx.run('COMMIT')
    await tx.close()
  } finally {
    await place.close()
  }
}
