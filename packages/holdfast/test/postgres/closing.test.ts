import { missingPrograms, missingReason, startPostgres, startProxy } from 'holdfast-servers'
import { expect, onTestFinished, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { connect } from '../../src/connect/connect.js'

const TIMEOUT_MS = 60_000

/** Ends every connection with a word to its client, as a server does that is shut down. */
const END_ALL = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`

test.skipIf(missingPrograms(['postgres']).length > 0)(
  titled(
    'a connection that breaks while the client is being closed ends nothing else',
    missingPrograms(['postgres']).length > 0 ? missingReason(['postgres']) : null,
  ),
  async () => {
    const server = await startPostgres()
    onTestFinished(() => server.dispose())
    const proxy = await startProxy(server.port)
    onTestFinished(() => proxy.dispose())
    const locks = await connect(server.url.replace(String(server.port), String(proxy.port)))
    await locks.migrate()
    // The server does not hear that the client leaves, so its last word comes when nobody expects one.
    proxy.hold(true)
    await locks.close()
    const lastWord = proxy.waitForBytes('reply', 'terminating connection')
    await server.query(END_ALL)
    await lastWord
    proxy.hold(false)
    await expect.poll(() => proxy.connections, { timeout: TIMEOUT_MS }).toBe(0)
  },
)

test.skipIf(missingPrograms(['postgres']).length > 0)(
  titled(
    'a connection that is ready and ended in the same breath ends nothing else',
    missingPrograms(['postgres']).length > 0 ? missingReason(['postgres']) : null,
  ),
  async () => {
    const server = await startPostgres()
    onTestFinished(() => server.dispose())
    const proxy = await startProxy(server.port)
    onTestFinished(() => proxy.dispose())
    // Both words are kept back, so that the driver reads them at once: before it has given the connection to anybody.
    proxy.holdReplies(true)
    const ready = proxy.waitForBytes('reply', 'server_version')
    const connecting = connect(server.url.replace(String(server.port), String(proxy.port))).then(
      async (locks) => {
        await locks.migrate()
        await locks.close()
      },
    )
    await ready
    const lastWord = proxy.waitForBytes('reply', 'terminating connection')
    await server.query(END_ALL)
    await lastWord
    proxy.holdReplies(false)
    await Promise.allSettled([connecting])
    await expect.poll(() => proxy.connections, { timeout: TIMEOUT_MS }).toBe(0)
  },
)
