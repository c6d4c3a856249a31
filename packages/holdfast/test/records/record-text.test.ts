// @module-tag effects
import { describe, expect, it } from 'vitest'
import {
  checkRecordKey,
  isRecordKey,
  readOwnerText,
  readRecordText,
  type StoredRecord,
  writeOwnerText,
  writeRecordText,
} from '../../src/backends/shared/record-text.js'
import { InvalidInputError, UnsupportedError } from '../../src/core/errors.js'

const WHERE = { backend: 'etcd', key: 'a' }

function stored(changes: Partial<StoredRecord['record']> = {}): StoredRecord {
  return {
    record: {
      state: 'in-progress',
      owner: 'o'.repeat(32),
      fence: null,
      attempt: 1,
      tookOver: false,
      fingerprint: `v1:${'f'.repeat(64)}`,
      progress: null,
      result: null,
      createdAtMs: null,
      ...changes,
    },
    leaseMs: null,
    retentionMs: null,
    endsAtMs: null,
  }
}

describe('the text of a record', () => {
  const TEXTS = [null, '', 'x', '\n', '{"a":"\\n"}\n\n', 'Größe 数量 👩‍👩‍👧‍👦', '\u0000\u0001']

  it('comes back as it was, whatever is in progress and result', () => {
    for (const progress of TEXTS) {
      for (const result of TEXTS) {
        const whole = {
          ...stored({ progress, result, fence: 2n ** 63n }),
          endsAtMs: 5,
          leaseMs: 6,
          retentionMs: 7,
        }
        expect(readRecordText(writeRecordText(whole, 1_000), WHERE)).toEqual(whole)
      }
    }
  })

  it('counts bytes and not characters, and refuses more than there may be', () => {
    const at = (progress: string, result: string): string => writeRecordText(stored({ progress, result }), 10)
    expect(() => at('éé', '👩é')).not.toThrow()
    expect(() => at('éé', '👩éx')).toThrow(InvalidInputError)
    expect(() => at('x'.repeat(11), '')).toThrow(InvalidInputError)
  })

  it('shows nothing of what it refuses', () => {
    const refuse = (): string => writeRecordText(stored({ result: 'secret'.repeat(10) }), 10)
    expect(refuse).toThrow(/^(?!.*secret)/)
  })

  it('is not made of what is something else, or was cut off', () => {
    const text = writeRecordText(stored({ progress: 'one', result: 'two' }), 1_000)
    const others = [
      '',
      'x',
      'null\n',
      '[]\n',
      '{}\n',
      '{"holdfast":"1"}\n',
      '{"holdfast":1}\n',
      text.slice(0, -1),
      `${text}x`,
      text.slice(1),
      text.replace('"in-progress"', '"lost"'),
      text.replace('"attempt":1', '"attempt":-1'),
      text.replace('"attempt":1', '"attempt":1.5'),
      text.replace('"fence":null', '"fence":"-1"'),
      text.replace('"progress":3', '"progress":1e999'),
      text.replace('\n', ' '),
      `${' '.repeat(5_000)}${text}`,
    ]
    for (const other of others) expect(() => readRecordText(other, WHERE), other).toThrow(UnsupportedError)
    expect(() => readRecordText(text, WHERE)).not.toThrow()
  })

  it('of a later format is told as such', () => {
    const later = writeRecordText(stored(), 10).replace('"holdfast":1', '"holdfast":2')
    expect(() => readRecordText(later, WHERE)).toThrow(/format 2.*Update/)
  })
})

describe('the text of an owner', () => {
  it('comes back as it was', () => {
    expect(readOwnerText(writeOwnerText({ owner: 'me', leaseMs: 1_000 }))).toEqual({
      owner: 'me',
      leaseMs: 1_000,
    })
    expect(readOwnerText(writeOwnerText({ owner: 'a b', leaseMs: 0.5 }))).toEqual({
      owner: 'a b',
      leaseMs: 1,
    })
  })

  it('is not made of something else', () => {
    for (const text of ['', '1', '1 ', ' me', '0 me', '-1 me', '1e9 me', 'x me'])
      expect(readOwnerText(text), text).toBe(null)
  })
})

it('only 64 hexadecimal digits are a key', () => {
  expect(checkRecordKey('a1'.repeat(32))).toBe('a1'.repeat(32))
  for (const key of ['', 'a', 'A1'.repeat(32), `${'a1'.repeat(32)}/`, '../'.repeat(21), 'g'.repeat(64)]) {
    expect(isRecordKey(key)).toBe(false)
    expect(() => checkRecordKey(key)).toThrow(InvalidInputError)
  }
})
