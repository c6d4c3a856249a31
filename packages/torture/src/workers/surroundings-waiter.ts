/**
 * A program that waits for locks and does nothing else. Its parent holds what it waits for. The event `beforeExit` shows that
 * the process would end: if that happens while a case waits, the case has failed.
 *
 *     surroundings-waiter.js SETUP
 */

import { holdAs } from '../surroundings/checks/holding.js'
import {
  LIFETIME_CASES,
  type LifetimeCase,
  type WaitingTools,
} from '../surroundings/checks/lifetime-cases.js'
import type { FromWaiter, ToWaiter, WaiterSetup } from '../surroundings/checks/lifetime-protocol.js'
import type { Library } from '../surroundings/subject.js'
import { messageOf } from '../surroundings/waiting.js'

const setup = JSON.parse(process.argv[2] ?? '{}') as WaiterSetup
const library = (await import(setup.library)) as Library
/** Long enough for the waiter to ask the store. */
const RELEASED_AFTER_MS = 100
const isMemory = setup.url.startsWith('memory:')

const tell = (message: FromWaiter): void => void process.send?.(message)

const answers = new Map<string, () => void>()
process.on('message', (message: ToWaiter) => answers.get(message.name)?.())
// The channel to the parent is not part of the program that is tested.
process.channel?.unref()

/** Keeps the process running in the parts that are not judged. */
let rescue: NodeJS.Timeout | null = null
let judged: string | null = null

function judge(what: string): void {
  judged = what
  if (rescue !== null) clearInterval(rescue)
  rescue = null
}

function stopJudging(): void {
  judged = null
  rescue ??= setInterval(() => {}, 1_000)
}

process.on('beforeExit', () => {
  if (judged === null) return
  tell({ kind: 'would have ended', what: judged })
  stopJudging()
})

stopJudging()
const locks = await library.holdfast.connect(setup.url)
await inTurn()

async function inTurn(): Promise<void> {
  const { guarantees } = locks
  const cases = LIFETIME_CASES.filter(
    (each) => each.applies(guarantees, setup.recordsUrl) && each.name.includes(setup.only),
  )
  for (const [index, each] of cases.entries()) await play(each, `${setup.prefix}-${index}`)
  const holding = await library.holdfast.connect(setup.url)
  await holding.mutex(`${setup.prefix}-kept`).acquire()
  await locks.close()
  tell({ kind: 'holding', resources: process.getActiveResourcesInfo(), guarantees })
  if (keepsNothing()) {
    // A lock that is held does not keep the process running: it ends here, without close().
    judge('nothing')
    judged = null
    return
  }
  await holding.close()
  tell({ kind: 'closed', resources: process.getActiveResourcesInfo() })
  judge('nothing')
  judged = null
}

/** Stores without a socket. With one, the open client keeps the process running until close(). */
function keepsNothing(): boolean {
  return isMemory || setup.url.startsWith('sqlite:')
}

async function play(each: LifetimeCase, name: string): Promise<void> {
  try {
    const other = isMemory ? await heldHere(each, name) : await heldByParent(each, name)
    const tools: WaitingTools = {
      locks,
      library,
      name,
      ttlMs: setup.ttlMs,
      recordsUrl: setup.recordsUrl,
      waiting: () => {
        judge(each.name)
        other.waiting()
      },
    }
    await each.run(tools)
    stopJudging()
    await other.over()
    tell({ kind: 'done', what: each.name })
  } catch (error) {
    stopJudging()
    tell({ kind: 'failed', what: each.name, message: messageOf(error) })
  }
}

interface Other {
  waiting(): void
  over(): Promise<void>
}

async function heldByParent({ held }: LifetimeCase, name: string): Promise<Other> {
  if (held === 'none') return { waiting: () => {}, over: async () => {} }
  await new Promise<void>((resolve) => {
    answers.set(name, resolve)
    tell({ kind: 'hold', held, name })
  })
  return { waiting: () => tell({ kind: 'waiting', held, name }), over: async () => {} }
}

/** The store of one process: another client of it holds the lock, and its release is not what keeps the process running. */
async function heldHere({ held }: LifetimeCase, name: string): Promise<Other> {
  if (held === 'none') return { waiting: () => {}, over: async () => {} }
  const client = await library.holdfast.connect(setup.url)
  const release = await holdAs(held, name, client, library, setup.recordsUrl)
  let released: Promise<void> = Promise.resolve()
  const letGo = (): void => {
    released = release()
  }
  return {
    waiting: () => void setTimeout(letGo, RELEASED_AFTER_MS).unref(),
    over: async () => {
      await released
      await client.close()
    },
  }
}
