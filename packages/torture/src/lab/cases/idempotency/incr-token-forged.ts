import type { LabCase } from '../../case.js'
import { postgresPool } from '../../recipes/databases/clients.js'
import { TokenRows } from '../../recipes/idempotency/postgres-service.js'
import { TokenCounted } from '../../recipes/idempotency/redis-tokens.js'
import { OUR_TOKENS, startTokenStore } from './token-stores.js'

export const incrTokenForged: LabCase = {
  name: 'incr-token-forged',
  title: 'A token that counts as fresh if INCR gives 1',
  family: 'idempotency',
  stores: ['redis', 'postgres'],
  story:
    'The page with the form gets a token, which is kept in Redis as `0`. The request counts it up with `INCR`, and the ' +
    'one that gets 1 is the first. One command, atomic, and no two requests can both be the first.',
  fault:
    'No fault of a server is needed. B sends a token that was never handed out. `INCR` makes a key that is not there, with the ' +
    'value 1, so whatever a client makes up is a fresh token, and so is every token that has expired.',
  expects: 'forged-token-accepted',
  ours: `${OUR_TOKENS} A token that was made up has no row, and is refused.`,
  resources: { 'token-1': { kind: 'idempotent' }, 'made-up': { kind: 'idempotent' } },
  setUp: async (scene) => void (await startTokenStore(scene)),
  open: {
    broken: (world) => new TokenCounted(world),
    ours: async (world) => new TokenRows(world, await postgresPool(world.url)),
  },
  schedule: async (scene) => {
    const [a, b] = [await scene.actor('A'), await scene.actor('B')]
    await a.act('issue', 'token-1')
    await a.act('submit', 'token-1')
    await b.act('submit', 'made-up')
  },
}
