/**
 * Calls on one connection run one after the other. A connection has one stack of savepoints, so a rollback to the savepoint
 * of one call would also undo what another call has done since, even if that call has already reported success.
 */

import { AsyncLocalStorage } from 'node:async_hooks'

/** A transaction, or the function of one call inside of it. Its calls are queued; `last` resolves when the queue is empty. */
class Level {
  readonly connection: object
  readonly parent: Level | null
  last: Promise<void> = Promise.resolve()
  isOver = false

  constructor(connection: object, parent: Level | null) {
    this.connection = connection
    this.parent = parent
  }
}

/** The level outside of any call. */
const outermost = new WeakMap<object, Level>()
/** The function that runs. It tells a nested call, which must not wait for the outer one, from a parallel call. */
const current = new AsyncLocalStorage<Level>()

/** Runs `call` after all calls that were made before it on the same level of the connection, however those end. */
export async function inTurn<T>(connection: object, call: () => Promise<T>): Promise<T> {
  const level = levelOf(connection)
  const before = level.last
  let end: () => void = () => {}
  level.last = new Promise((resolve) => {
    end = resolve
  })
  await before
  try {
    return await call()
  } finally {
    end()
  }
}

/**
 * Runs the function of a call. Calls that it makes on the same connection are nested: they run inside this call, one after
 * the other. The function is over only when all of them are, also those that it did not await: they would otherwise go on
 * after the savepoint around them is gone.
 */
export async function asOuter<T>(connection: object, work: () => Promise<T>): Promise<T> {
  const level = new Level(connection, activeLevel())
  try {
    return await current.run(level, work)
  } finally {
    let last: Promise<void>
    do {
      last = level.last
      await last
    } while (last !== level.last)
    level.isOver = true
  }
}

function levelOf(connection: object): Level {
  for (let level = activeLevel(); level !== null; level = level.parent) {
    if (level.connection === connection && !level.isOver) return level
  }
  const found = outermost.get(connection) ?? new Level(connection, null)
  outermost.set(connection, found)
  return found
}

/** Levels that are over are skipped, so that a function that outlives its call does not keep a growing chain of them. */
function activeLevel(): Level | null {
  let level = current.getStore() ?? null
  while (level?.isOver === true) level = level.parent
  return level
}
