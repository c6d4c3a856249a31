/** What every stage does in the same way: it keeps account of the faults that are on, and puts everything away. */

import { connect, type Guarantees } from 'holdfast'
import type { Leftover, Ongoing, Stage, StageFault } from './stage.js'

/** Something that was started, and that can be put away. */
export interface Part {
  dispose(): Promise<void>
}

/** What a store's own file knows of a stage. The rest is the same for all. */
export type StagePlan = Omit<Stage, 'guarantees' | 'dispose'>

/** Is told of every part as soon as it is there, so that it is put away whatever happens next. */
export type Keep = <P extends Part>(part: P) => P

/**
 * Starts what a stage consists of, makes the tables where the recipe has some, and asks what it guarantees. Parts are put
 * away in the opposite order of their start, also if one of them cannot be started.
 */
export async function startStage(
  build: (keep: Keep) => Promise<StagePlan>,
  { migrate = true } = {},
): Promise<Stage> {
  const parts: Part[] = []
  try {
    const plan = await build((part) => {
      parts.unshift(part)
      return part
    })
    const ledger = new FaultLedger()
    return {
      ...plan,
      guarantees: await prepare(plan.url, migrate),
      faults: plan.faults.map((fault) => ledger.watched(fault)),
      dispose: () => ledger.close(parts),
    }
  } catch (error) {
    await disposeInTurn(parts)
    throw error
  }
}

async function prepare(url: string, migrate: boolean): Promise<Guarantees> {
  const locks = await connect(url)
  try {
    if (migrate) await locks.migrate()
    return locks.guarantees
  } finally {
    await locks.close()
  }
}

async function disposeInTurn(parts: readonly Part[]): Promise<void> {
  for (const part of parts) await part.dispose()
}

/** What is left in several places. */
export async function allLeftovers(
  looks: readonly (Promise<readonly Leftover[]> | readonly Leftover[])[],
): Promise<readonly Leftover[]> {
  return (await Promise.all(looks.map(async (look) => await look))).flat()
}

/** The faults that are on. */
class FaultLedger {
  readonly #begun = new Set<Promise<Ongoing>>()
  #closed: Promise<void> | null = null

  watched(fault: StageFault): StageFault {
    return {
      name: fault.name,
      lastsMs: fault.lastsMs,
      begin: async (random) => {
        if (this.#closed !== null) throw new Error('The stage has been disposed of.')
        const beginning = fault.begin(random).then(endingOnce)
        this.#begun.add(beginning)
        // One that could not begin has put right what it did.
        const ongoing = await beginning.catch((error: unknown) => {
          this.#begun.delete(beginning)
          throw error
        })
        return {
          target: ongoing.target,
          end: async () => {
            await ongoing.end()
            this.#begun.delete(beginning)
          },
        }
      },
    }
  }

  close(parts: readonly Part[]): Promise<void> {
    this.#closed ??= this.#closeNow(parts)
    return this.#closed
  }

  async #closeNow(parts: readonly Part[]): Promise<void> {
    // A server that is being started again would otherwise outlive the stage. What comes of it does not matter any more.
    await Promise.allSettled([...this.#begun].map(async (beginning) => await (await beginning).end()))
    await disposeInTurn(parts)
  }
}

/** Ending it twice, once by the run and once because the stage is put away, is ending it once. */
function endingOnce(ongoing: Ongoing): Ongoing {
  let ended: Promise<void> | null = null
  return {
    target: ongoing.target,
    end: () => {
      ended ??= ongoing.end()
      return ended
    },
  }
}
