/**
 * The way to the line script. What is asked for in one turn of the event loop goes out together, in order, as one call
 * of the script: the work that a driver and a server do for every command is then shared by all of it.
 */

import type { BackendUnavailableError } from '../../core/errors.js'
import { CallLane } from './call-lane.js'
import { afterReading } from './clock.js'
import { isTornSlot, notReplicated, redisError, stepError, strangeAnswer } from './errors.js'
import { source } from './line-script.js'
import type { RedisLink } from './link.js'
import { type ReplicaOptions, runConfirmed } from './replicas.js'
import { Script } from './script.js'
import { slotOf, togetherOn } from './slot.js'

export interface StepsOptions extends ReplicaOptions {
  readonly prefix: string
  /** What the channels begin with that grants are pushed to. */
  readonly channelPrefix: string
  readonly fenceMemoryMs: number
}

/** The answer of one step, and how many replicas have it where that was asked. */
export interface Answer {
  readonly text: string
  /** null when enough replicas have confirmed it; else what to say. */
  readonly unconfirmed: BackendUnavailableError | null
}

interface Step {
  readonly resource: string
  readonly key: string
  /** As the script wants to read it. */
  readonly text: string
  /** Whether it must be confirmed by replicas, where they are asked at all. */
  readonly confirm: boolean
  /** Attempts are requests of waiters. All other steps serve holders or operators, and go first. */
  readonly isUrgent: boolean
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/**
 * Enough to share the cost of a call, few enough that the server begins to answer while the client still sends, and
 * that nobody else waits long for the server.
 */
const STEPS_MAX = 16

/** What the answer of a long queue begins with, and a step that expects one. */
const LONG = '~'

/** How many names of long queues are kept in mind. Forgetting one costs an error that the server counts, and no more. */
const LONG_NAMES_MAX = 1_000

const LINE = new Script(source)

export class Steps {
  readonly #link: RedisLink
  readonly #options: StepsOptions
  /** The names whose queue was long when the server last answered for them. */
  readonly #long = new Set<string>()
  readonly #lanes = new Map<number, CallLane<Step>>()
  #pending: Step[] = []
  /** Calls that have not been answered. */
  #underWay = 0

  constructor(link: RedisLink, options: StepsOptions) {
    this.#link = link
    this.#options = options
  }

  run(resource: string, text: string, confirm = false): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const key = this.#options.prefix + resource
      const isUrgent = !text.startsWith('a ')
      this.#pending.push({ resource, key, text, confirm, isUrgent, resolve, reject })
      if (this.#pending.length > 1) return
      // After everything that is ready to run has run, and before anything is waited for. While the server is at work
      // anyway, also after what has come in over other connections: whoever serves many has it go out together.
      if (this.#underWay === 0) process.nextTick(() => this.#flush())
      else afterReading(() => this.#flush())
    })
  }

  #flush(): void {
    const pending = this.#pending
    this.#pending = []
    for (const group of togetherOn(this.#link, pending, ({ key }) => key)) {
      this.#laneOf((group[0] as Step).key).add(group)
    }
  }

  /** One for a server; in a cluster one for each slot in use, so that a node that hangs holds up no other. */
  #laneOf(key: string): CallLane<Step> {
    const slot = this.#link.isCluster ? slotOf(this.#link.keyPrefix + key) : 0
    const found = this.#lanes.get(slot)
    if (found !== undefined) return found
    const lane: CallLane<Step> = new CallLane(STEPS_MAX, (steps) => this.#send(steps, lane))
    this.#lanes.set(slot, lane)
    return lane
  }

  async #send(steps: readonly Step[], lane: CallLane<Step>): Promise<void> {
    this.#underWay += 1
    try {
      const confirm = this.#options.waitReplicas > 0 && steps.some((step) => step.confirm)
      const { answers, confirmed } = confirm
        ? await this.#confirmed(steps)
        : { answers: await this.#plain(steps), confirmed: null }
      this.#settleAll(steps, answers, confirmed)
    } catch (error) {
      if (steps.length > 1 && isTornSlot(error)) lane.addAlone(steps)
      else for (const step of steps) step.reject(redisError(error, step.resource))
    } finally {
      this.#underWay -= 1
    }
  }

  /** One step is answered by a text, several by a list. */
  #settleAll(steps: readonly Step[], answers: unknown, confirmed: number | null): void {
    const list: readonly unknown[] = Array.isArray(answers) ? answers : [answers]
    if (list.length !== steps.length) throw strangeAnswer(answers)
    for (const [index, step] of steps.entries()) this.#settle(step, list[index], confirmed)
  }

  #settle(step: Step, answer: unknown, confirmed: number | null): void {
    const said = typeof answer === 'string' ? answer : String(answer)
    if (said.startsWith('! ')) {
      step.reject(stepError(said.slice(2), step.resource))
      return
    }
    const text = this.#noteLength(step.resource, said)
    const { waitReplicas } = this.#options
    const missing = step.confirm && confirmed !== null && confirmed < waitReplicas
    step.resolve({
      text,
      unconfirmed: missing ? notReplicated(confirmed, waitReplicas, step.resource) : null,
    })
  }

  /** Takes note of how long the queue is, and gives the answer itself. */
  #noteLength(resource: string, said: string): string {
    const isLong = said.startsWith(LONG)
    if (!isLong && this.#long.size > 0) this.#long.delete(resource)
    if (!isLong) return said
    if (this.#long.size >= LONG_NAMES_MAX) this.#long.clear()
    this.#long.add(resource)
    return said.slice(LONG.length)
  }

  #plain(steps: readonly Step[]): Promise<unknown> {
    const [keys, args] = this.#call(steps, '0')
    const key = keys[0] as string
    return LINE.run((command) => this.#link.send(key, command), keys, args)
  }

  async #confirmed(steps: readonly Step[]): Promise<{ answers: unknown; confirmed: number }> {
    const [keys, args] = this.#call(steps, '1')
    const { answer, replicas } = await runConfirmed(this.#link, LINE, { keys, args }, this.#options)
    return { answers: answer, confirmed: replicas }
  }

  #call(steps: readonly Step[], touch: '0' | '1'): [keys: string[], args: string[]] {
    const { fenceMemoryMs, channelPrefix } = this.#options
    const keys: string[] = []
    const args = [String(fenceMemoryMs), touch + channelPrefix]
    for (const { key, text, resource } of steps) {
      keys.push(key)
      args.push(this.#long.size > 0 && this.#long.has(resource) ? LONG + text : text)
    }
    return [keys, args]
  }
}
