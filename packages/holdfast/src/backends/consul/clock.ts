import { performance } from 'node:perf_hooks'

/** For people to see how old a claim is. It decides nothing: Consul keeps no time beside a key. */
export function wallMs(): number {
  return Math.round(performance.timeOrigin + performance.now())
}
