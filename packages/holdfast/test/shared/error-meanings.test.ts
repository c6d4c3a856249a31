/** Which errors leave open what became of a request, and which only say that the store is away. */

import { describe, expect, it } from 'vitest'
import {
  mayHaveHappened as inConsul,
  strangeAnswer as strangeConsul,
} from '../../src/backends/consul/errors.js'
import { strangeAnswer as strangeMemcached } from '../../src/backends/memcached/errors.js'
import { mayHaveHappened as inMemcached } from '../../src/backends/memcached/lines.js'
import { strangeAnswer as strangeRedis } from '../../src/backends/redis/errors.js'
import { isOutage } from '../../src/backends/sessions/entry.js'
import { BackendUnavailableError, OutcomeUnknownError, UnsupportedError } from '../../src/core/errors.js'

const notReached = new BackendUnavailableError('Connection refused.')
const noAnswer = new OutcomeUnknownError('The connection ended.')
const refused = new UnsupportedError('No rights.')

describe('an error of a request', () => {
  it.each([
    ['Consul', inConsul],
    ['memcached', inMemcached],
  ])('of %s leaves open what happened only where the request may have been carried out', (_store, isOpen) => {
    expect([noAnswer, notReached, refused].map(isOpen)).toEqual([true, false, false])
  })

  it('of a session is an outage whether the request was sent or not', () => {
    expect([noAnswer, notReached, refused].map(isOutage)).toEqual([true, true, false])
  })

  it('that makes no sense leaves open what happened, on every store', () => {
    expect(inConsul(strangeConsul('x'))).toBe(true)
    expect(inMemcached(strangeMemcached('x'))).toBe(true)
    expect(strangeRedis('x')).toBeInstanceOf(OutcomeUnknownError)
  })
})
