import { CORE, type Mutant } from './mutant.js'

/** Faults of the core and of the memory store. */
export const CORE_MUTANTS: readonly Mutant[] = [
  {
    name: 'validity counted from the reply',
    file: `${CORE}/acquire.ts`,
    find: 'this.#place(verdict, sentAt, awake)',
    replace: 'this.#place(verdict, runtime.clock.monotonicMs(), awake)',
  },
  {
    name: 'renewal counted from the reply',
    file: `${CORE}/keeper.ts`,
    find: 'standing.confirmed(sentAt, asked, awake)',
    replace: 'standing.confirmed(this.#runtime.clock.monotonicMs(), asked, awake)',
  },
  {
    name: 'late grant used all the same',
    file: `${CORE}/acquire.ts`,
    find: 'if (this.#machinery.runtime.clock.monotonicMs() >= this.standing.abortAt) {',
    replace: 'if (this.standing.abortAt === 0) {',
  },
  {
    name: 'lost reply read as a refusal',
    file: `${CORE}/acquire.ts`,
    find: '    } catch (error) {\n      if (!this.mayReturn) this.cancel()\n      throw error\n    }',
    replace: "    } catch {\n      return { kind: 'refused' }\n    }",
  },
  {
    name: 'claim given up without a release',
    file: `${CORE}/acquire.ts`,
    find: 'this.givenBack = this.#machinery.releaser.release(this.standing)',
    replace: 'void this.#machinery.keeper.drop(this.standing)',
  },
  {
    name: 'attempt that lands after the release left alone',
    file: `${CORE}/releaser.ts`,
    find: "if (standing.state === 'ended' && !this.#stopped) void this.release(standing)",
    replace: 'if (this.#stopped) void this.release(standing)',
  },
  {
    name: 'renewal after release',
    file: `${CORE}/releaser.ts`,
    find: 'if (renewing !== null) await renewing',
    replace:
      "if (renewing !== null) {\n standing.state = 'held'\n this.#keeper.keep(standing)\n return 'released'\n }",
  },
  {
    name: 'holder never told that its lease is over',
    file: `${CORE}/keeper.ts`,
    find: "if (standing.state === 'held' && now >= standing.endsAt) {",
    replace: "if (standing.state === 'held' && now < 0) {",
  },
  {
    name: 'sleep of the machine not noticed',
    file: `${CORE}/sleep-watch.ts`,
    find: 'if (byMs <= SLEEP_SLACK_MS) return null',
    replace: 'if (byMs >= 0) return null',
  },
  {
    name: 'lease counted on through a sleep',
    file: `${CORE}/standing.ts`,
    find: 'this.abortAt -= ms',
    replace: 'this.abortAt -= 0',
  },
  {
    name: 'pushed grant taken for any place',
    file: `${CORE}/acquire.ts`,
    find: 'return pushed !== null && pushed.fence === standing.fence && this.#isUsable()',
    replace: 'return pushed !== null && this.#isUsable()',
    worlds: 'lossy',
  },
  {
    name: 'local hand-over without a new fence',
    file: `${CORE}/local-line.ts`,
    find: 'standing.handOvers += 1',
    replace: 'standing.handOvers += 0',
  },
  {
    name: 'local hand-over to another weight',
    file: `${CORE}/hand-over.ts`,
    find: 'claim.weight === weight &&',
    replace: 'claim.weight > 0 && weight > 0 &&',
  },
  {
    name: 'admitted by count, without weights',
    file: `${CORE}/line.ts`,
    find: 'sum += weight\n',
    replace: 'sum += Math.sign(weight)\n',
  },
  {
    name: 'attempt not idempotent',
    file: `${CORE}/line.ts`,
    find: 'line.findIndex((place) => place.id === claim.id)',
    replace: 'line.findIndex((place) => place.id === `${claim.id}?`)',
  },
  {
    name: 'renewal takes a lost place again',
    file: 'holdfast/src/backends/memory/backend.ts',
    find: "if (entry === undefined || expiresAt === null) return 'lost'",
    replace: `if (entry === undefined || expiresAt === null) {
      const deaf = { granted: () => {}, wanted: () => {}, hint: () => {}, lost: () => {} }
      const { kind } = this.attempt(claim, { waitMs: 0, leaseMs: request.leaseMs }, deaf)
      return kind === 'granted' ? 'renewed' : 'lost'
    }`,
  },
  {
    name: 'unanswered renewal counted',
    file: `${CORE}/keeper.ts`,
    find: "else if (state === 'unknown') this.#retryLater(standing)\n",
    replace: '',
    worlds: 'leased',
  },
  {
    name: 'renewal shortens',
    file: `${CORE}/line.ts`,
    find: 'return Math.max(place.expiresAt, now + request.leaseMs)',
    replace: 'return now + request.leaseMs',
  },
  {
    name: 'renewal not bound to its place',
    file: `${CORE}/line.ts`,
    find: 'place === undefined || place.fence !== request.fence ||',
    replace: 'place === undefined ||',
  },
  {
    name: 'lock without an expiry',
    file: `${CORE}/line.ts`,
    find: 'return place.expiresAt > now',
    replace: 'return place.expiresAt > now || now > 0',
  },
  {
    name: 'release without an owner check',
    file: 'holdfast/src/backends/memory/backend.ts',
    find: '(entry) => entry.id === id)',
    replace: '(entry) => entry.id !== `${id}?`)',
  },
  {
    name: 'fence not moved on at takeover',
    file: 'holdfast/src/backends/memory/backend.ts',
    find: 'this.#lastFence += 1n',
    replace: 'if (line !== null || this.#lastFence === 0n) this.#lastFence += 1n',
  },
  {
    name: "expiry judged by the client's clock",
    file: 'torture/src/sim/stores/leased.ts',
    find: '    return this.#time.nowMs\n',
    replace: '    return _asking?.wallMs() ?? this.#time.nowMs\n',
  },
]
