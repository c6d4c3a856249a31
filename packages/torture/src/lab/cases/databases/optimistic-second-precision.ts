import type { LabCase } from '../../case.js'
import { mysqlPool } from '../../recipes/databases/clients.js'
import { BySecond, ByVersion, TABLE_OF_LISTS } from '../../recipes/databases/shared-list.js'

/** On a busy machine a round may reach into the next second; then it shows nothing, and there is another one. */
const CARTS = ['cart-1', 'cart-2', 'cart-3', 'cart-4', 'cart-5', 'cart-6']

export const optimisticSecondPrecision: LabCase = {
  name: 'optimistic-second-precision',
  title: 'An optimistic lock by a timestamp of whole seconds',
  family: 'databases',
  stores: ['mariadb'],
  story:
    '`UPDATE … WHERE id = ? AND updated_at = ?`: the column is there anyway, so why add a version? In MySQL and MariaDB ' +
    '`DATETIME` and `TIMESTAMP` keep whole seconds unless told otherwise.',
  fault:
    'A cart is made, A and B read it, A adds a thing, B adds another, all within one second. The timestamp is the same ' +
    'all the time, so the condition of B holds, and B writes over what A has added.',
  expects: 'lost-update',
  ours:
    '`updateVersioned` of `holdfast/optimistic`, which counts a version up: it needs no clock, and B is refused. ' +
    '`updateByTimestamp` refuses a column of whole seconds, with an error that says so.',
  resources: Object.fromEntries(CARTS.map((name) => [name, { kind: 'set' as const }])),
  // The server is needed in the schedule as well, for its clock.
  setUp: async () => {},
  open: {
    broken: async (world) => new BySecond(world, await mysqlPool(world.url)),
    ours: async (world) => new ByVersion(world, await mysqlPool(world.url)),
  },
  schedule: async (scene) => {
    const server = await scene.start('mariadb')
    await server.query(TABLE_OF_LISTS)
    const [a, b] = [await scene.actor('A'), await scene.actor('B')]
    const second = async () => (await server.query('SELECT UNIX_TIMESTAMP()'))[0]?.[0]
    for (const name of CARTS) {
      const before = await second()
      await scene.until(async () => (await second()) !== before, 5)
      const began = await second()
      await a.act('create', { name })
      await a.act('load', { name })
      await b.act('load', { name })
      await a.act('add', { name, item: 'bread' })
      await b.act('add', { name, item: 'milk' })
      await a.act('look', { name })
      if ((await second()) === began) return
    }
  },
}
