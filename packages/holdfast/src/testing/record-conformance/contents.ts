import assert from 'node:assert/strict'
import { ClosedError } from '../../core/errors.js'
import { asError, rejectionOf } from '../conformance/waiting.js'
import { freshKey, type RecordBench, refOf } from './bench.js'
import type { RecordCase, RecordTheme } from './theme.js'

const LARGE_BYTES = 300_000

/** What a store, its protocol or its query language might take for something else. */
const TEXTS: Readonly<Record<string, string>> = {
  'an empty text': '',
  'one letter': 'x',
  'a zero': '0',
  blanks: '  blank before and after  ',
  'the word null': 'null',
  json: '{"a":[1,2,{"b":null}],"c":"\\"\\\\"}',
  quotes: `'";--\`$1 ? :name %s {{x}} \\x00 \\u0000 \\ /* */`,
  'lines and markup': '<b>&amp;</b>\u2028\u2029\u0085\u007f',
  'other scripts': 'Größe 数量 количество ประมาณ',
  'right to left': 'سعر \u202eabc\u202c שלום',
  'beyond the basic plane': '👩‍👩‍👧‍👦 𝔘𝔫𝔦 𠮷 🇩🇪',
  'marks that combine': 'e\u0301 \u00e9 \uac00 \u1100\u1161',
  'odd ends': '\ufeffx\uffff\ufffd\u{10ffff}',
}

async function comesBack(bench: RecordBench, text: string, what: string): Promise<void> {
  const own = await bench.claim()
  assert.equal(await bench.a.save({ ...refOf(own), progress: text }), 'done', what)
  assert.equal((await bench.b.read(own.key))?.progress === text, true, `${what}: progress`)
  // Together they may not be more than the store takes, so one makes room for the other.
  assert.equal(await bench.a.save({ ...refOf(own), progress: '' }), 'done', what)
  assert.equal(await bench.a.finish(bench.end(own, 'completed', text)), 'done', what)
  const answer = await bench.rival(own)
  assert(answer.kind === 'settled', what)
  assert.equal(answer.result === text, true, `${what}: the result is another than was given`)
  const view = await bench.b.read(own.key)
  assert.deepEqual([view?.result === text, view?.progress], [true, ''], what)
}

const texts: readonly RecordCase[] = [
  {
    title: 'every well-formed text comes back as it was',
    async run(bench) {
      await Promise.all(Object.entries(TEXTS).map(([what, text]) => comesBack(bench, text, what)))
    },
  },
  {
    title: 'large texts come back as they were',
    async run(bench) {
      const bytes = Math.min(bench.traits.bytesMax, LARGE_BYTES)
      await comesBack(bench, 'x'.repeat(bytes), `${bytes} letters`)
      await comesBack(bench, '𠮷'.repeat(Math.floor(bytes / 4)), `${bytes} bytes beyond the basic plane`)
    },
  },
  {
    title: 'progress and result may take all there is together',
    async run(bench) {
      const half = 'y'.repeat(Math.floor(Math.min(bench.traits.bytesMax, LARGE_BYTES) / 2))
      const own = await bench.claim()
      assert.equal(await bench.a.save({ ...refOf(own), progress: half }), 'done')
      assert.equal(await bench.a.finish(bench.end(own, 'completed', half)), 'done')
      const view = await bench.b.read(own.key)
      assert.deepEqual([view?.progress?.length, view?.result?.length], [half.length, half.length])
    },
  },
  {
    title: 'what a release leaves of a result is not told as one',
    async run(bench) {
      const own = await bench.claim()
      await bench.a.finish(bench.end(own, 'released', 'of no use'))
      const next = await bench.claim({ key: own.key }, bench.b)
      assert.equal((await bench.a.read(own.key))?.result, null)
      await bench.b.finish(bench.end(next, 'completed', null))
      const answer = await bench.rival(own)
      assert.deepEqual([answer.kind, answer.kind === 'settled' && answer.result], ['settled', null])
    },
  },
]

const closing: readonly RecordCase[] = [
  {
    title: 'a client that is closed refuses everything with ClosedError, and others go on',
    async run(bench) {
      const store = await bench.connect()
      const own = await bench.claim({}, store)
      await store.close()
      await store.close()
      const key = freshKey()
      const calls: readonly (() => Promise<unknown>)[] = [
        () => store.claim(bench.ask({ key })),
        () => store.renew([bench.renewal(own, bench.longMs)]),
        () => store.finish(bench.end(own, 'completed', 'x')),
        () => store.save({ ...refOf(own), progress: 'x' }),
        () => store.read(own.key),
        () => store.issue(key, 1_000),
        () => store.spend({ key: own.key, count: true }),
        () => store.forget(own.key),
        ...(store.purge === undefined ? [] : [async () => await store.purge?.(1)]),
      ]
      for (const call of calls) asError(ClosedError, await rejectionOf(call()))
      assert.equal(await bench.b.read(key), null)
      assert.equal((await bench.rival(own)).kind, 'in-progress')
      assert.equal(await bench.b.finish(bench.end(own, 'completed', 'by another connection')), 'done')
    },
  },
  {
    title: 'a client that was never opened refuses everything with ClosedError',
    async run(bench) {
      const store = await bench.connectUnopened()
      asError(ClosedError, await rejectionOf(Promise.resolve().then(() => store.claim(bench.ask()))))
      asError(ClosedError, await rejectionOf(Promise.resolve().then(() => store.read(freshKey()))))
      await store.close()
    },
  },
]

export const contents: RecordTheme = { name: 'contents', cases: texts }
export const endings: RecordTheme = { name: 'closing', cases: closing }
