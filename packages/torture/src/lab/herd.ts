import type { Violation } from '../check/verdict.js'
import type { SceneFacts } from './case.js'

/**
 * Judges what waiters asked of a server while nothing changed: `requests while nothing changed`, in so many
 * `milliseconds`, by so many `waiters`. The bound is requests per waiter and second, so a slow machine changes nothing.
 */
export function herdViolations(facts: SceneFacts, perWaiterSecond: number): readonly Violation[] {
  const requests = facts.get('requests while nothing changed') ?? 0
  const [ms, waiters] = [facts.get('milliseconds') ?? 0, facts.get('waiters') ?? 0]
  const rate = (requests / waiters) * (1_000 / ms)
  // A schedule that counted nothing must not pass for one that found nothing; then the rate is not a number.
  if (rate <= perWaiterSecond) return []
  return [
    {
      kind: 'herd',
      resource: 'account',
      at: 0,
      message:
        `${waiters} waiters sent ${requests} requests in ${ms} ms in which nothing changed: ${rate.toFixed(1)} per ` +
        `waiter and second, and ${perWaiterSecond} are enough.`,
    },
  ]
}
