import type { Backend } from '../../src/backend.js'
import { MemoryStore } from '../../src/memory.js'
import {
  AdmitsOneTooMany,
  AnswersTheWeightThatWasAsked,
  DowngradesWithAGap,
  EveryAttemptIsNew,
  EverybodyWeighsOne,
  EvictsNobody,
  FoldsCase,
  ForgetsNotes,
  KeepsNoLine,
  ListsEverything,
  NeverCountsOn,
  PromisesTooMuch,
  ReadersOvertake,
  RefusedTryStaysInLine,
  ReleasesHoldersOnly,
  ReleasesNothing,
  ReleasesWhoeverHolds,
  RenewalRevives,
  RenewsWhateverItIsAsked,
  ShowsIds,
  TakesAConflictForContention,
} from './broken-backends.js'

/** One mistake that a backend could make, and a case that must notice it. */
export interface PlantedFault {
  readonly mistake: string
  readonly theme: string
  readonly caughtBy: string
  /** A store of its own where the mistake lies there. */
  store?(): MemoryStore
  plant(sound: Backend, store: MemoryStore): Backend
}

export const PLANTED: readonly PlantedFault[] = [
  {
    mistake: 'release has no owner check',
    theme: 'loss',
    caughtBy: 'releasing a hold before its loss was noticed does not touch its successor',
    plant: (sound, store) => new ReleasesWhoeverHolds(sound, store),
  },
  {
    mistake: 'one too many is admitted',
    theme: 'exclusion',
    caughtBy: 'mutex: many clients with many tasks lose no update of a shared counter',
    plant: (sound) => new AdmitsOneTooMany(sound),
  },
  {
    mistake: 'a claim is answered with the weight that was asked for',
    theme: 'weights',
    caughtBy: 'a reader that is asked for again as a writer is not granted as one',
    plant: (sound) => new AnswersTheWeightThatWasAsked(sound),
  },
  {
    mistake: 'the fence does not move on',
    theme: 'fencing',
    caughtBy: 'fences rise over hand-overs between clients',
    plant: (sound) => new NeverCountsOn(sound),
  },
  {
    mistake: 'a renewal revives',
    theme: 'loss',
    caughtBy: 'extend() on a hold that is gone rejects with LockLostError',
    plant: (sound) => new RenewalRevives(sound),
  },
  {
    mistake: 'a renewal never says that it is lost',
    theme: 'loss',
    caughtBy: 'a hold that is severed aborts its signal with a LockLostError and is not held',
    plant: (sound) => new RenewsWhateverItIsAsked(sound),
  },
  {
    mistake: 'an attempt is not idempotent',
    theme: 'lostReplies',
    caughtBy: 'a waiter whose answers are lost keeps one place, not several',
    plant: (sound) => new EveryAttemptIsNew(sound),
  },
  {
    mistake: 'a refused try stays in line',
    theme: 'timeouts',
    caughtBy: 'mutex: a refused try leaves no entry',
    plant: (sound) => new RefusedTryStaysInLine(sound),
  },
  {
    mistake: 'release forgets waiters',
    theme: 'timeouts',
    caughtBy: 'mutex: a waiter that gave up leaves no entry and is not granted later',
    plant: (sound) => new ReleasesHoldersOnly(sound),
  },
  {
    mistake: 'release does nothing',
    theme: 'exclusion',
    caughtBy: 'mutex: once released it is free for a try of another client',
    plant: (sound) => new ReleasesNothing(sound),
  },
  {
    mistake: 'names are folded to lower case',
    theme: 'naming',
    caughtBy: 'each name is its own lock: upper and lower case',
    plant: (sound) => new FoldsCase(sound),
  },
  {
    mistake: 'claim ids are shown',
    theme: 'inspection',
    caughtBy: 'no claim id shows in views, errors or events',
    plant: (sound) => new ShowsIds(sound),
  },
  {
    mistake: 'waiters keep no place',
    theme: 'fairness',
    caughtBy: 'independent clients get it in the order in which they came',
    plant: (sound) => new KeepsNoLine(sound),
  },
  {
    mistake: 'the lease is shorter than promised',
    theme: 'loss',
    caughtBy: 'when every renewal is refused, the signal aborts before anybody else is let in',
    plant: (sound) => new PromisesTooMuch(sound),
  },
  {
    mistake: 'an eviction does nothing',
    theme: 'inspection',
    caughtBy: 'evict() frees the lock at once, and the holder learns of it',
    plant: (sound) => new EvictsNobody(sound),
  },
  {
    mistake: 'list ignores its prefix',
    theme: 'naming',
    caughtBy: 'a prefix is taken literally by list()',
    plant: (sound) => new ListsEverything(sound),
  },
  {
    mistake: 'a downgrade has a gap',
    theme: 'shared',
    caughtBy: 'a downgrade lets no waiting writer in between',
    plant: (sound) => new DowngradesWithAGap(sound),
  },
  {
    mistake: 'weights are ignored',
    theme: 'weights',
    caughtBy: 'the sum of the permits never exceeds the limit',
    plant: (sound) => new EverybodyWeighsOne(sound),
  },
  {
    mistake: 'a shape conflict passes for contention',
    theme: 'weights',
    caughtBy: 'what is used as a mutex is refused as anything else, until it is free',
    plant: (sound) => new TakesAConflictForContention(sound),
  },
  {
    mistake: 'notes are not kept',
    theme: 'inspection',
    caughtBy: 'a holder is shown with its owner, note, weight and shape',
    plant: (sound) => new ForgetsNotes(sound),
  },
  {
    mistake: 'readers overtake a waiting writer',
    theme: 'shared',
    caughtBy: 'a waiting writer is not overtaken by later readers',
    plant: (sound) => new ReadersOvertake(sound),
  },
  {
    mistake: 'leases never end',
    theme: 'loss',
    caughtBy: 'a fixed lease ends by itself, and the lock can be had again',
    store: () => new MemoryStore({ nowMs: () => 0 }),
    plant: (sound) => sound,
  },
]
