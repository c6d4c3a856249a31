import type { Hold } from 'holdfast'
import { Caller } from '../contexts.js'
import type { SimProcess } from '../process.js'
import { Actor, type Stage } from './actor.js'
import { campaign, observe } from './elections.js'
import { crowd, flow, reenter, replaceClient, several } from './groups.js'
import { downgraded, runOnce, useOnce } from './runs.js'
import { chooseWanted } from './wanted.js'

/** What a caller may do, and how often. What remains is the plain way: acquire, work, release. */
const PLAYS: readonly (readonly [number, (actor: Actor) => Promise<void>])[] = [
  [0.08, several],
  [0.06, reenter],
  [0.12, runOnce],
  [0.05, useOnce],
  [0.06, campaign],
  [0.01, observe],
  [0.03, crowd],
  [0.03, flow],
  [0.003, replaceClient],
]

/** One flow of a process: it takes locks in every way there is, as one caller after the other. */
export class Task {
  readonly #process: SimProcess
  readonly #stage: Stage
  readonly #name: string
  #rounds = 0

  constructor(process: SimProcess, stage: Stage, name: string) {
    this.#process = process
    this.#stage = stage
    this.#name = name
  }

  async run(goesOn: () => boolean): Promise<void> {
    const { random, manners, checks } = this.#stage
    while (goesOn()) {
      this.#rounds += 1
      const caller = new Caller(`${this.#name}.${this.#rounds}`, this.#process)
      const actor = new Actor(this.#stage, caller)
      await checks.contexts.run(caller, () => this.#round(actor))
      await this.#process.sleep(random.between(0, manners.idleMs))
    }
  }

  async #round(actor: Actor): Promise<void> {
    const { random } = this.#stage
    actor.caller.react = (resource) => {
      if (resource !== 'inner' && random.chance(0.05)) actor.aside(actor.lockInside())
    }
    let draw = random.fraction()
    const play = PLAYS.find(([share]) => {
      draw -= share
      return draw < 0
    })
    await (play === undefined ? one(actor) : play[1](actor))
    await actor.end()
  }
}

async function one(actor: Actor): Promise<void> {
  const { random, manners } = actor.stage
  const wanted = chooseWanted(actor.locks, random, manners)
  const terms = actor.terms(wanted.permits)
  const hold = await actor.take(wanted, terms)
  if (hold === null) return
  const belief = actor.believe(wanted, hold, terms)
  await actor.work(belief, hold)
  if (!('downgrade' in hold) || !random.chance(0.4)) {
    await actor.giveBack(belief, hold, terms.minHoldMs)
    return
  }
  const lighter = await downgraded(actor, wanted, belief, hold as Hold & { downgrade(): Promise<Hold> })
  if (lighter === null) {
    await hold.release()
    return
  }
  await actor.work(lighter.belief, lighter.hold)
  await actor.giveBack(lighter.belief, lighter.hold)
}
