import {
  AcquireTimeoutError,
  BackendUnavailableError,
  ClosedError,
  InvalidInputError,
  LockLostError,
  OutcomeUnknownError,
  ShapeConflictError,
} from 'holdfast'
import { describe, expect, test } from 'vitest'
import { debugText, explain, UsageError } from '../src/failure.js'
import { Interrupted, OutputClosed } from '../src/interruption.js'

const context = { resource: 'a', backend: 'test' }
const holder = { owner: { host: 'web-1', pid: 42, client: 'c' }, note: 'x\u{202e}' }

describe('what an error means', () => {
  test.each([
    [new UsageError('no'), 64],
    [new InvalidInputError('name', 'a text', 1), 64],
    [new ShapeConflictError({ kind: 'mutex', limit: 1 }, { kind: 'semaphore', limit: 2 }, context), 64],
    [new BackendUnavailableError('gone'), 69],
    [new OutcomeUnknownError('no answer'), 69],
    [new ClosedError(context), 70],
    [new Error('oops'), 70],
    ['not even an error', 70],
    [new AcquireTimeoutError(5_000, null, context), 75],
    [new LockLostError('expired', context), 79],
    [new Interrupted('SIGINT'), 130],
    [new Interrupted('SIGTERM'), 143],
    [new OutputClosed(), 0],
  ])('%s is exit code %i', (error, exitCode) => {
    expect(explain(error).exitCode).toBe(exitCode)
  })

  test('a timeout names the holder, in the words of the command line', () => {
    expect(explain(new AcquireTimeoutError(5_000, holder, context)).message).toBe(
      '"a" was not free within 5.0s; it is held by web-1:42 (x\\u{202e})',
    )
    expect(explain(new AcquireTimeoutError(2, null, context)).message).toBe('"a" is taken')
  })

  test('an option has the name that was typed', () => {
    expect(explain(new InvalidInputError('ttlMs', 'more', 1)).message).toBe(
      'Expected --ttl to be more, got 1.',
    )
  })

  test('messages are one line, without credentials and without control characters', () => {
    const error = new Error('at db://anna:s3cret@host\n  and \u{1b}[2J')
    expect(explain(error).message).toBe('internal error: at db://***@host and \\u{1b}[2J')
    expect(debugText(error)).not.toContain('s3cret')
    expect(debugText(error)).not.toContain('\u{1b}')
    expect(debugText(error)).toContain('\n    at ')
  })
})
