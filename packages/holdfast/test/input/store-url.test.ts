/** A variable that is not set must not become a lock file of this machine. */

import { describe, expect, it } from 'vitest'
import { connect, openBackend } from '../../src/connect/connect.js'
import { examine } from '../../src/connect/examine.js'
import { connectIdempotency, connectRecords } from '../../src/connect/records.js'
import { schemaOf } from '../../src/connect/schema.js'
import { InvalidInputError } from '../../src/core/errors.js'

const entries: readonly (readonly [string, (url: string) => Promise<unknown>])[] = [
  ['connect', (url) => connect(url)],
  ['connect with options', (url) => connect(url, {})],
  ['openBackend', (url) => openBackend(url)],
  ['connectRecords', (url) => connectRecords(url)],
  ['connectIdempotency', (url) => connectIdempotency(url, {})],
  ['examine', (url) => examine(url)],
  ['schemaOf', (url) => schemaOf(url)],
]

describe.each(entries)('%s()', (_name, open) => {
  it.each([[undefined], [null], ['']])('rejects %j as a URL', async (url) => {
    const error = await open(url as string).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(InvalidInputError)
    expect(error).toMatchObject({ code: 'INVALID_INPUT', option: 'url' })
    expect((error as Error).message).toContain('variable')
  })
})

describe('a call without a URL', () => {
  it('means the SQLite file of the user', async () => {
    const backend = await openBackend()
    expect(backend.name).toBe('sqlite')
    expect(await schemaOf()).toBeNull()
  })
})
