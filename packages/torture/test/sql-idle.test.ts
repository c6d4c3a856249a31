import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'holdfast'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { titled } from '../../../test/support/titled.js'
import { Children } from './children.js'
import { type SqlTarget, sqlTargets } from './sql-recipes.js'

const WAITERS = 500
const BAR_PER_SECOND = 100
/** Whoever has just begun to wait asks often. */
const SETTLING_MS = 3_000
const MEASURED_MS = 4_000

let children: Children

beforeEach(() => {
  children = new Children()
})

afterEach(async () => {
  await children.stopAll()
})

/** How many statements the server has been sent by clients. Those of this question are two of them. */
async function questions({ server }: SqlTarget): Promise<number> {
  const [row] = await server.query("SHOW GLOBAL STATUS LIKE 'Questions'")
  return Number(row?.[1])
}

async function costOfWaiting(target: SqlTarget, processes: number): Promise<number> {
  const locks = await connect(target.url)
  const name = `busy with ${processes}`
  const hold = await locks.mutex(name).acquire()
  const args = [target.url, name, WAITERS / processes]
  const workers = Array.from({ length: processes }, () => children.start('waiting-callers', args))
  await Promise.all(workers.map((worker) => worker.hear('waiting')))
  await sleep(SETTLING_MS)
  const before = await questions(target)
  const since = performance.now()
  await sleep(MEASURED_MS)
  const asked = (await questions(target)) - before - 1
  const perSecond = asked / ((performance.now() - since) / 1_000)
  hold.assertHeld()
  await Promise.all(workers.map((worker) => worker.kill()))
  await hold.release()
  await locks.close()
  return perSecond
}

// The recipes without a line cannot tell the first from the others, and so cost as much as there are processes.
const targets = (await sqlTargets(['mariadb', 'mysql'])).filter(({ recipe }) => recipe === 'rows')

describe.runIf(targets.length > 0)(
  titled(
    'those who wait on rows of MySQL and MariaDB',
    targets.length > 0 ? null : 'there is neither MariaDB nor MySQL',
  ),
  () => {
    it.each([1, 10])(`cost the server little, ${WAITERS} of them in %i processes`, async (processes) => {
      const costs = await Promise.all(targets.map((target) => costOfWaiting(target, processes)))
      expect(children.errors).toBe('')
      for (const [index, { title }] of targets.entries()) {
        const perSecond = costs[index] ?? 0
        console.log(
          `sql-idle: ${title}: ${WAITERS} waiters in ${processes} processes: ${perSecond.toFixed(1)} queries/s`,
        )
        expect(perSecond).toBeLessThan(BAR_PER_SECOND)
        // They do ask, and so what was counted is what they cost.
        expect(perSecond).toBeGreaterThan(1)
      }
    })
  },
)
