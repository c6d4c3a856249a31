import type { RecordStore } from '../../src/core/records.js'

/** One mistake that a store of records could make, and a case that must notice it. */
export interface PlantedMistake {
  readonly mistake: string
  readonly caughtBy: string
  readonly plant: (sound: RecordStore) => Partial<RecordStore>
}

export const MISTAKES: readonly PlantedMistake[] = [
  {
    mistake: 'everybody wins a claim',
    caughtBy: 'of many claims at once through two clients one wins, and the others are told of it',
    plant: (sound) => ({
      claim: async (ask) => {
        const answer = await sound.claim(ask)
        const { createdAtMs, progress } = { createdAtMs: null, progress: null }
        return answer.kind === 'in-progress'
          ? { ...answer, kind: 'claimed', tookOver: false, createdAtMs, progress }
          : answer
      },
    }),
  },
  {
    mistake: 'another request is told that the first is under way',
    caughtBy: 'another request is told so while the first is under way, and changes nothing',
    plant: (sound) => ({ claim: (ask) => sound.claim({ ...ask, fingerprint: null }) }),
  },
  {
    mistake: 'fingerprints of different versions are compared',
    caughtBy: 'fingerprints of different versions are not compared',
    plant: (sound) => ({
      claim: (ask) =>
        sound.claim({ ...ask, fingerprint: ask.fingerprint && `v1:${ask.fingerprint.replace(':', '')}` }),
    }),
  },
  {
    mistake: 'a claim that is repeated is somebody else to it',
    caughtBy: 'a claim that its owner repeats is answered as before, by either client',
    plant: (sound) => {
      let claims = 0
      return {
        claim: async (ask) => {
          claims += 1
          const answer = await sound.claim(ask)
          return claims > 1 && answer.kind === 'claimed' ? { ...answer, kind: 'in-progress' } : answer
        },
      }
    },
  },
  {
    mistake: 'an end needs only the fence',
    caughtBy: 'another owner can neither end, keep nor renew it, even with the right fence',
    plant: (sound) => ({
      finish: async (ask) => {
        const owner = (await sound.read(ask.key))?.owner ?? ask.owner
        return await sound.finish({ ...ask, owner })
      },
    }),
  },
  {
    mistake: 'an end needs only the owner',
    caughtBy: 'the right owner with another fence can neither end, keep nor renew it',
    plant: (sound) => ({
      finish: async (ask) => {
        const view = await sound.read(ask.key)
        return await sound.finish({ ...ask, fence: view?.owner === ask.owner ? view.fence : ask.fence })
      },
    }),
  },
  {
    mistake: 'an end that is repeated is stale',
    caughtBy: 'an end that its owner repeats is done once more, and changes nothing',
    plant: (sound) => ({
      finish: async (ask) =>
        (await sound.read(ask.key))?.state === ask.state ? 'stale' : await sound.finish(ask),
    }),
  },
  {
    mistake: 'a release removes the record',
    caughtBy:
      'what was released is claimed again at once: one attempt more, a higher fence, the same progress',
    plant: (sound) => ({
      finish: async (ask) => {
        const answer = await sound.finish(ask)
        if (answer === 'done' && ask.state === 'released') await sound.forget(ask.key)
        return answer
      },
    }),
  },
  {
    mistake: 'a lease that is over is revived',
    caughtBy: 'a lease that is over is not revived, though nobody has taken over',
    plant: (sound) => ({
      renew: async (asks) =>
        await Promise.all(
          asks.map(async ({ key, owner, fence }) => {
            const view = await sound.read(key)
            return view?.owner === owner && view.fence === fence ? 'renewed' : 'lost'
          }),
        ),
    }),
  },
  {
    mistake: 'renewals do nothing',
    caughtBy: 'renewals keep a claim for several leases, also where its retention is shorter',
    plant: (sound) => ({ renew: (asks) => sound.renew(asks.map((ask) => ({ ...ask, leaseMs: 0 }))) }),
  },
  {
    mistake: 'asking renews',
    caughtBy: 'a renewal of 0 only asks, and does not keep the claim',
    plant: (sound) => ({
      renew: (asks) =>
        sound.renew(asks.map((ask) => ({ ...ask, leaseMs: ask.leaseMs === 0 ? 60_000 : ask.leaseMs }))),
    }),
  },
  {
    mistake: 'what is abandoned is taken over by those who do not want to',
    caughtBy: 'whoever does not want to take over is told that it is abandoned, and it stays so',
    plant: (sound) => {
      // Only the second of them, so that the case gets as far as its own question.
      let refused = 0
      return {
        claim: async (ask) => {
          const answer = await sound.claim(ask)
          if (answer.kind !== 'abandoned' || refused++ === 0) return answer
          return await sound.claim({ ...ask, takeOver: true })
        },
      }
    },
  },
  {
    mistake: 'a lease is promised for longer than it lasts',
    caughtBy: 'what its owner has not finished in time is taken over: one attempt more and a higher fence',
    plant: (sound) => ({
      claim: async (ask) => {
        const answer = await sound.claim(ask)
        return answer.kind === 'claimed' ? { ...answer, leaseMs: answer.leaseMs + 60_000 } : answer
      },
    }),
  },
  {
    mistake: 'the end is kept for as long as the claim said',
    caughtBy: 'the retention of the end counts, not that of the claim',
    plant: (sound) => ({ finish: (ask) => sound.finish({ ...ask, retentionMs: 7_200_000 }) }),
  },
  {
    mistake: 'a record is gone with its lease',
    caughtBy: 'what nobody has finished stays for its lease and its retention, and is then gone',
    plant: (sound) => ({ claim: (ask) => sound.claim({ ...ask, retentionMs: 1 }) }),
  },
  {
    mistake: 'a forged token counts from its second showing',
    caughtBy: 'what was never issued is missing, every time, and nothing is left of the showing',
    plant: (sound) => ({
      spend: async (ask) => {
        const answer = await sound.spend(ask)
        if (answer.kind === 'missing') await sound.issue(ask.key, 3_600_000)
        return answer
      },
    }),
  },
  {
    mistake: 'a token is given back after its first showing',
    caughtBy: 'a token is spent once; a second showing is told apart and changes nothing',
    plant: (sound) => ({
      spend: async (ask) => {
        const answer = await sound.spend(ask)
        await sound.forget(ask.key)
        return answer
      },
    }),
  },
  {
    mistake: 'an empty result is none',
    caughtBy: 'every well-formed text comes back as it was',
    plant: (sound) => ({ finish: (ask) => sound.finish({ ...ask, result: ask.result || null }) }),
  },
  {
    mistake: 'a purge removes more than it was asked for',
    caughtBy: 'a purge removes what is over, no more than it was asked for, and nothing else',
    plant: (sound) => ({ purge: async () => (await sound.purge?.(1_000)) ?? 0 }),
  },
  {
    mistake: 'a client that is closed goes on',
    caughtBy: 'a client that is closed refuses everything with ClosedError, and others go on',
    plant: () => ({ close: async () => {} }),
  },
]
