import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { booksOf } from '../../src/check/books.js'
import { checkFiles, checkHistory } from '../../src/check/check.js'
import { findOrder, MODELS, type ModelName } from '../../src/check/linear/linearizability.js'
import { EDN_RESOURCE, parseEdnHistory } from '../../src/history/edn.js'
import { historyOf, readHistory } from '../../src/history/reader.js'

/** What Knossos publishes as a history of etcd's lock that is not one of a mutex. */
const ETCD = join(import.meta.dirname, 'public-record', 'etcd.edn')

describe('the public record of a lock that failed', () => {
  test('is judged invalid by the sweep, which says when two held', () => {
    const verdict = checkFiles([ETCD])
    expect(verdict.valid).toBe(false)
    expect(verdict.violations[0]).toMatchObject({ kind: 'overlap', resource: 'history' })
    expect(verdict.undecided).toEqual([])
    expect(verdict.counts).toMatchObject({ events: 1_123, acquired: 132 })
  })

  test.each(['mutex', 'owner-mutex', 'lease-mutex'] satisfies ModelName[])(
    'has no order as a %s, says the search on its own',
    (model) => {
      const book = booksOf(readHistory([ETCD]).events, () => ({ kind: 'mutex' })).resources.get(EDN_RESOURCE)
      if (book === undefined) expect.fail('nothing was read')
      const result = findOrder(model, book, { kind: 'mutex' })
      expect(result).toMatchObject({ verdict: 'invalid', stuck: { f: 'acquire' } })
      console.log(`${model}: no order after ${result.states} states`)
    },
  )

  test('is valid up to the moment before the first overlap', () => {
    const history = readHistory([ETCD])
    const at = checkHistory(history).violations[0]?.at ?? 0
    const before = { ...history, events: history.events.filter(({ t }) => t < at) }
    expect(before.events.length).toBeGreaterThan(100)
    for (const model of [undefined, ...MODELS.filter((name) => name.endsWith('mutex'))]) {
      const options = model === undefined ? {} : { model }
      expect(checkHistory(before, options)).toMatchObject({ valid: true, undecided: [] })
    }
  })
})

describe('the notation of Knossos', () => {
  test('is read with or without times, brackets and values', () => {
    const { events, problems, headers } = parseEdnHistory(`
      ; two of a register
      {:process 0, :type :invoke, :f :write, :value 3}
      {:process 0, :type :ok, :f :write, :value 3}
      {:process 1, :type :invoke, :f :read, :value nil} {:process :nemesis, :type :info, :f :start}
      #jepsen.history.Op{:process 1, :type :ok, :f :read, :value 3, :error [:odd "a \\"quoted\\" text"]}`)
    expect(problems).toEqual([])
    expect(headers[0]?.resources).toEqual({ history: { kind: 'register' } })
    expect(events.map(({ t, p, f, type, v }) => [t, p, f, type, v?.value])).toEqual([
      [0, '0', 'write', 'invoke', 3],
      [1, '0', 'write', 'ok', 3],
      [2, '1', 'read', 'invoke', undefined],
      [3, '1', 'read', 'ok', 3],
    ])
    expect(checkHistory(historyOf([...headers, ...events])).valid).toBe(true)
  })

  test.each([
    '[',
    '{:process 0',
    '"abc',
    ']',
    '[[[[[[[[[['.repeat(10),
    '{:process 0 :f :cas :type :ok}',
    '#',
  ])('says what is wrong with %j', (text) => {
    expect(parseEdnHistory(text).problems).toHaveLength(1)
  })
})
