import type { SeededRandom } from 'holdfast/testing'
import { CALM, type Weather } from './network.js'

/** Messages that arrive after a standstill, some of them twice, tell an entry from a later one of the same claim. */
const DELAYED = { slow: 0.2, duplicate: 0.2 }

/** `isStandstills`: processes stand still or sleep in this world, so late messages matter more. */
export function chooseWeather(random: SeededRandom, ttlMs: number, isStandstills: boolean): Weather {
  const weather = chooseOne(random, ttlMs)
  const isDelayed = isStandstills && random.chance(0.7)
  return isDelayed ? { ...weather, ...DELAYED, slowMs: ttlMs * 2 } : weather
}

/** Some worlds have one trouble and some have all, because troubles can hide each other. */
function chooseOne(random: SeededRandom, ttlMs: number): Weather {
  if (random.chance(0.1)) return CALM
  const rate = (): number => (random.chance(0.5) ? 0 : random.pick([0.01, 0.05, 0.2]))
  return {
    delayMs: random.pick([0.5, 5, ttlMs / 20]),
    slow: rate(),
    slowMs: random.pick([ttlMs / 2, ttlMs * 3]),
    lostRequest: rate(),
    lostReply: rate(),
    duplicate: rate(),
    lostPush: rate(),
  }
}
