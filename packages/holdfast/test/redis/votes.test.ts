import { describe, expect, test } from 'vitest'
import type { Found, NxStore } from '../../src/backends/redis/nx-store.js'
import { Rounds } from '../../src/backends/redis/rounds.js'
import {
  type Ballot,
  commonLease,
  gather,
  majorityOf,
  noQuorum,
  outcomeOf,
  quorumOf,
  renewalOf,
  VotingNode,
} from '../../src/backends/redis/votes.js'
import { BackendUnavailableError, OutcomeUnknownError, UnsupportedError } from '../../src/core/errors.js'

const FOUND: Found = {
  identity: 'x',
  digest: 'd',
  isOurs: true,
  holder: { owner: { host: 'box', pid: 1, client: 'c' }, note: null },
  fence: 1n,
  ageMs: 5,
  remainingMs: 1_000,
}

/** y: yes. n: no. f: failed. w: young. ?: nothing yet. s: nothing yet, from a node that is known to be silent. */
function outcome(letters: string): string | null {
  const nodes = letters.split('').map((letter) => {
    const node = new VotingNode({} as NxStore)
    node.isSilent = letter === 's'
    return node
  })
  return outcomeOf(ballots(letters), nodes)
}

function ballots(letters: string, error: unknown = new OutcomeUnknownError('silent')): (Ballot | null)[] {
  return letters.split('').map((letter) => {
    if (letter === 'y') return { kind: 'yes', leaseMs: 1_000 }
    if (letter === 'n') return { kind: 'no', by: FOUND }
    if (letter === 'f') return { kind: 'failed', error }
    return letter === 'w' ? { kind: 'young', waitMs: 3_000 } : null
  })
}

describe('the outcome of a vote', () => {
  test('a majority is more than half', () => {
    expect([3, 4, 5, 6, 7].map(quorumOf)).toEqual([2, 3, 3, 4, 4])
  })

  test.each([
    // Granted with the vote that makes the majority, whatever is still to come.
    ['yyy??', 'granted'],
    ['yyyff', 'granted'],
    ['yyynw', 'granted'],
    ['yyyss', 'granted'],
    ['yy???', null],
    ['yyn??', null],
    ['yyff?', null],
    // Refused as soon as the majority cannot be reached, and enough have spoken.
    ['nnn??', 'refused'],
    ['yynnn', 'refused'],
    ['yynn?', null],
    ['ynn??', null],
    ['yynnf', 'refused'],
    ['yynff', 'refused'],
    ['yynnw', 'refused'],
    // A node that is known to be silent is not waited for, if the others suffice.
    ['yynns', 'refused'],
    ['yynss', 'refused'],
    ['nnsss', null],
    // Too few have a say: never a refusal.
    ['nnfff', 'failed'],
    ['yyfff', 'failed'],
    ['yywww', 'failed'],
    ['nnffw', 'failed'],
    ['fff??', 'failed'],
    ['ff???', null],
    // Four: an even split ends at once.
    ['yynn', 'refused'],
    ['yyn?', null],
    ['yyyn', 'granted'],
    ['yyff', 'failed'],
    ['ynn?', 'refused'],
  ])('%s is %s', (letters, expected) => {
    expect(outcome(letters)).toBe(expected)
  })

  test('every order of the same votes comes to the same end', () => {
    for (let number = 0; number < 4 ** 5; number += 1) {
      const letters = number
        .toString(4)
        .padStart(5, '0')
        .split('')
        .map((digit) => 'ynfw'[Number(digit)])
        .join('')
      const end = outcome(letters)
      expect(end, letters).not.toBeNull()
      // What was certain before the last vote is still true after it.
      for (let known = 1; known < 5; known += 1) {
        const early = outcome(letters.slice(0, known).padEnd(5, '?'))
        if (early !== null) expect(early, `${letters} after ${known}`).toBe(end)
      }
    }
  })
})

describe('what the votes add up to', () => {
  test('the lease of a majority is the longest that enough of them have', () => {
    expect(commonLease([10, 30, 20, 50, 40], 3)).toBe(30)
    expect(commonLease([10, 30], 3)).toBe(0)
  })

  test('the holder is whom a majority has, for as long as it is a majority', () => {
    const at = (identity: string, remainingMs: number | null): Found => ({ ...FOUND, identity, remainingMs })
    const found = [at('a', 100), at('a', 300), at('b', 900), at('a', 200), null]
    expect(majorityOf(found, 5)).toMatchObject({ identity: 'a', remainingMs: 100, fence: null })
    expect(majorityOf([...found.slice(0, 4), at('a', 400)], 5)).toMatchObject({ remainingMs: 200 })
    expect(majorityOf([at('a', null), at('a', null), at('a', null)], 5)).toMatchObject({ remainingMs: null })
    expect(majorityOf([at('a', 1), at('a', 1), at('b', 1), at('b', 1), null], 5)).toBeNull()
    expect(majorityOf([at('a', 1), at('a', 1), at('b', 1), at('b', 1)], 4)).toBeNull()
    expect(majorityOf([], 5)).toBeNull()
  })

  test('a claim is renewed by a majority, and lost only if a majority cannot be left', () => {
    const state = (letters: string): string =>
      renewalOf(
        letters.split('').map((letter) => {
          if (letter === '?') return null
          if (letter === 'f') return { kind: 'error', error: new Error('away') }
          const outcome: PromiseSettledResult<boolean> =
            letter === 'e'
              ? { status: 'rejected', reason: new Error('odd') }
              : { status: 'fulfilled', value: letter === 'y' }
          return { kind: 'value', value: [outcome] }
        }),
        0,
      )
    for (const letters of ['yyy??', 'yyynn', 'yyyff']) expect(state(letters), letters).toBe('renewed')
    for (const letters of ['nnn??', 'yynnn', 'ynnnf', 'yynn', 'nn??'])
      expect(state(letters), letters).toBe('lost')
    for (const letters of ['yynnf', 'yynn?', 'yyfff', 'yyeen', '?????', 'yyn?']) {
      expect(state(letters), letters).toBe('unknown')
    }
  })

  test('the error says what is missing, and what to do', () => {
    const unknown = noQuorum(ballots('yyfff'), 60_000, 'a')
    expect(unknown).toBeInstanceOf(OutcomeUnknownError)
    expect(String(unknown)).toContain(
      'At most 2 of 5 Redis nodes have a say about "a", and 3 are needed. 3 did not answer',
    )
    const away = noQuorum(ballots('yyfff', new BackendUnavailableError('away')), 60_000, 'a')
    expect(away).toBeInstanceOf(BackendUnavailableError)
    const young = noQuorum(ballots('yywww'), 60_000, 'a')
    expect(young).toBeInstanceOf(BackendUnavailableError)
    expect(String(young)).toContain('3 restarted less than 60 s ago')
    expect(String(young)).toContain('wait 3 s, or set `restartDelayMs: 0`')
  })

  test('an error that waiting does not cure is told as it is, if the others are too few without it', () => {
    const final = new UnsupportedError('in use for something else')
    expect(noQuorum(ballots('yyfff', final), 0, 'a')).toBe(final)
    const mixed = [...ballots('yyff'), { kind: 'failed', error: final } as const]
    expect(noQuorum(mixed, 0, 'a')).toBeInstanceOf(OutcomeUnknownError)
  })
})

test('rounds that nobody ended are forgotten once their lease is over', () => {
  const rounds = new Rounds()
  for (let index = 0; index < 1_000; index += 1) rounds.begin(`old-${index}`, 0, 100).isGranted = true
  const kept = rounds.begin('kept', 50, 1_000)
  kept.isGranted = true
  rounds.begin('asking', 50, 10)
  rounds.begin('new', 200, 100)
  expect(rounds.get('old-0')).toBeUndefined()
  expect(rounds.get('old-999')).toBeUndefined()
  expect(rounds.get('kept')).toBe(kept)
  expect(rounds.get('asking')).toBeDefined()
})

describe('a node that hangs', () => {
  const never = (): Promise<never> => new Promise(() => {})

  test('is not asked without end, and is asked again when it has answered', async () => {
    const node = new VotingNode({} as NxStore)
    let asked = 0
    let answer = (_value: string): void => {}
    const last = (): Promise<string> => {
      asked += 1
      return new Promise((resolve) => {
        answer = resolve
      })
    }
    for (let round = 0; round < 199; round += 1) node.tell(never)
    const heard = node.ask(last)
    node.isSilent = true
    await expect(node.ask(last)).rejects.toThrow(BackendUnavailableError)
    expect(asked).toBe(1)
    answer('here')
    expect(await heard).toBe('here')
    expect(node.isSilent).toBe(false)
    expect(await node.ask(async () => 'again')).toBe('again')
  })

  test('keeps nobody waiting for longer than the deadline', async () => {
    const nodes = [1, 2, 3].map(() => new VotingNode({} as NxStore))
    const answers = await gather({ nodes, nodeMs: 20, ask: never, isEnough: () => false })
    expect(answers.map((each) => each?.kind)).toEqual(['error', 'error', 'error'])
    expect(nodes.every(({ isSilent }) => isSilent)).toBe(true)
  })
})
