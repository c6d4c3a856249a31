import type { GuardName } from '../guards.js'
import type { Trial } from '../trial.js'

/** A holder lets its lease run out and writes after its successor has. What it writes to must refuse it. */
function staleWrite(guard: GuardName): Trial {
  return {
    name: `stale write to ${guard}`,
    promises: { fences: true },
    resources: { 'account/data': { kind: 'register' } },
    run: async (play) => {
      await play.operator()
      const a = await play.actor('A', { guard, renew: false })
      const b = await play.actor('B', { guard })
      await a.acquire({ ttlMs: 800 })
      await a.write(1)
      await b.acquire({ ttlMs: 30_000, waitMs: 20_000 })
      await b.write(2)
      await a.write(3)
      await b.release()
      await a.release()
    },
  }
}

export const staleWriteToGate = staleWrite('gate')
export const staleWriteToRedis = staleWrite('redis')
export const staleWriteToPostgres = staleWrite('postgres')
