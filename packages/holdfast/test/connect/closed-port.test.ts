/** A store that is not there shows when it is opened, and not at the first lock. */

import { describe, expect, it } from 'vitest'
import { connect } from '../../src/connect/connect.js'
import { connectIdempotency } from '../../src/connect/records.js'
import { BackendUnavailableError } from '../../src/core/errors.js'

/** Nothing listens on port 1, so every connection is refused at once. */
const CLOSED = '127.0.0.1:1'

const urls = [
  `redis://${CLOSED}?driver=ioredis`,
  `redis://${CLOSED}?driver=redis`,
  `rediss://${CLOSED}`,
  `redis+sentinel://${CLOSED}/main`,
  `redis+cluster://${CLOSED}`,
  `redis+redlock://${CLOSED},127.0.0.1:2,127.0.0.1:3`,
  `postgres://user@${CLOSED}/db`,
  `mysql://user@${CLOSED}/db`,
  `consul://${CLOSED}`,
  `consuls://${CLOSED}`,
  `etcd://${CLOSED}`,
  `etcds://${CLOSED}`,
  `zookeeper://${CLOSED}/locks?sessionMs=5000`,
  `zookeepers://${CLOSED}/locks?sessionMs=5000`,
  `memcached://${CLOSED}`,
  `memcacheds://${CLOSED}`,
  `http://${CLOSED}`,
  `https://${CLOSED}`,
]

/** Where there is one server, the message says which. */
function namesPlace(url: string): boolean {
  return /^(?:redis:|postgres|mysql|consul|etcd|memcached|http)/.test(url)
}

/** Redlock keeps no records. */
const recordUrls = urls.filter((url) => !url.startsWith('redis+redlock'))

describe.concurrent('connect() to a closed port', () => {
  it.each(urls)('rejects with BackendUnavailableError: %s', async (url) => {
    const error = await connect(url).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(BackendUnavailableError)
    if (namesPlace(url)) expect(String(error)).toContain(CLOSED)
  })
})

describe.concurrent('connectIdempotency() to a closed port', () => {
  it.each(recordUrls)('rejects with BackendUnavailableError: %s', async (url) => {
    const error = await connectIdempotency(url).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(BackendUnavailableError)
  })
})
