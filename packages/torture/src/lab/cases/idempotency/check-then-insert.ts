import type { LabCase } from '../../case.js'
import { postgresPool } from '../../recipes/databases/clients.js'
import { CheckThenInsert, CreatedOnce } from '../../recipes/idempotency/postgres-service.js'
import { startDatabase } from './token-stores.js'
import { twoAtOnce } from './two-at-once.js'

export const checkThenInsert: LabCase = {
  name: 'check-then-insert',
  title: 'SELECT, and INSERT if there was nothing',
  family: 'idempotency',
  stores: ['postgres'],
  story:
    '`SELECT` the order by its number; if there is none, `INSERT` it and take the payment. In a transaction it looks even ' +
    'safer, and it is not: at the usual levels nobody sees what others have not committed.',
  fault:
    'The message is delivered twice. A has looked and found nothing; B looks and finds nothing either. Without a unique ' +
    'key on the number both orders are inserted, and both are paid.',
  expects: 'executed-twice',
  ours:
    '`createOnce` of `holdfast/optimistic`, with the payment in the same transaction. The unique index decides who ' +
    'creates the order, and `createOnce` refuses to work without one. B waits until A has committed, and gets the order of A.',
  resources: { 'order-1': { kind: 'idempotent' } },
  // The schedule needs the store, and starts it.
  setUp: async () => {},
  open: {
    broken: async (world) => new CheckThenInsert(world, await postgresPool(world.url)),
    ours: async (world) => new CreatedOnce(world, await postgresPool(world.url)),
  },
  schedule: async (scene) => await twoAtOnce(scene, await startDatabase(scene), 'order-1'),
}
