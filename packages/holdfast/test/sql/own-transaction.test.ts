import { expect, test } from 'vitest'
import type { SqlLink, SqlResult, SqlSession } from '../../src/backends/sql/link.js'
import { OwnTransactions, type TransactionRecipe } from '../../src/backends/sql/own-transaction.js'
import { LockTimeoutError, SerializationError } from '../../src/index.js'
import { claimOf } from '../support/claims.js'

const NOTHING: SqlResult = { rows: [], affected: 0 }
const PATIENCE = { waitMs: 5_000, leaseMs: 5_000 }

interface Gate {
  readonly passed: Promise<void>
  open(): void
}

function gate(): Gate {
  let open = (): void => {}
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { passed, open }
}

/** A database that does what the test tells it, and notes what becomes of its connections. */
function scripted(recipe: Pick<TransactionRecipe, 'lock'> & Partial<TransactionRecipe>): {
  readonly own: OwnTransactions
  readonly notes: string[]
} {
  const notes: string[] = []
  const session = (): SqlSession => ({
    client: {},
    isEnded: false,
    run: async ({ text }) => {
      notes.push(text)
      return NOTHING
    },
    onEnd: () => () => {},
    release: () => void notes.push('given back'),
    destroy: () => void notes.push('destroyed'),
  })
  const link: SqlLink = {
    run: async () => NOTHING,
    session: async () => session(),
    script: async () => {},
    close: async () => {},
  }
  const whole: TransactionRecipe = {
    name: 'scripted',
    guarantees: { fencing: 'strict', waiting: 'block' },
    idOf: async () => '1',
    prepare: async () => {},
    begin: async () => {
      notes.push('BEGIN')
      return 'mark'
    },
    isOpen: async () => true,
    alive: async () => new Set(),
    holder: async () => null,
    end: async () => true,
    ...recipe,
  }
  return { own: new OwnTransactions(link, whole, 'serializable'), notes }
}

test('a connection goes back to the pool only after what was to be cancelled on it has been', async () => {
  const [lock, cancel] = [gate(), gate()]
  const { own, notes } = scripted({
    async lock() {
      await lock.passed
      throw new LockTimeoutError('too late')
    },
    async cancel() {
      notes.push('cancelling')
      await cancel.passed
      notes.push('cancelled')
    },
  })
  const claim = claimOf('busy')
  const taking = own.take(claim, PATIENCE)
  await new Promise(setImmediate)
  const abandoning = own.abandon(claim)
  await new Promise(setImmediate)
  // The wait ends by itself in the same moment.
  lock.open()
  await new Promise(setImmediate)
  expect(notes).toEqual(['BEGIN', 'cancelling'])
  cancel.open()
  expect(await taking).toBeNull()
  await abandoning
  expect(notes).toEqual(['BEGIN', 'cancelling', 'cancelled', 'ROLLBACK', 'given back'])
})

test('a transaction that saw too little to lock anything is begun again, and not for ever', async () => {
  let failures = 1
  const { own, notes } = scripted({
    async lock() {
      failures -= 1
      if (failures >= 0) throw new SerializationError('unseen')
      return 7n
    },
  })
  expect(await own.take(claimOf('new'), PATIENCE)).toMatchObject({ fence: 7n })
  expect(notes).toEqual(['BEGIN', 'ROLLBACK', 'BEGIN'])
  failures = 100
  await expect(own.take(claimOf('unseen'), PATIENCE)).rejects.toThrow(SerializationError)
  expect(notes.at(-1)).toBe('destroyed')
})
