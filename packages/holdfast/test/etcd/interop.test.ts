// @module-tag exclusion
/** `etcdctl lock` on the same names: what one holds, the other does not get, both ways. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type EtcdServer, missingPrograms, missingReason, startEtcd } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { atDepth } from '../../../../test/support/depth.js'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { openEtcd } from '../../src/backends/etcd/open.js'
import { AcquireTimeoutError } from '../../src/core/errors.js'
import { watchForStrays } from '../support/strays.js'
import { etcdctl, freshName, locksAt, locksOver, rejection } from './support.js'

const missing = missingPrograms(['etcd', 'etcdctl'])
const ROUNDS = atDepth(32, 200)

watchForStrays()

describe.skipIf(missing.length > 0)(
  titled('etcdctl lock', missing.length > 0 ? missingReason(missing) : null),
  () => {
    let server: EtcdServer
    let folder: string
    beforeAll(async () => {
      server = await startEtcd()
      folder = await mkdtemp(join(tmpdir(), 'holdfast-interop-'))
    })
    afterAll(async () => {
      await server.dispose()
      await rm(folder, { recursive: true, force: true })
    })

    /** Holds the name until it is told to stop. */
    async function etcdctlHolds(name: string): Promise<() => Promise<void>> {
      const child = spawn('etcdctl', ['lock', name, '--ttl', '10'], {
        env: { ...process.env, ...server.env },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      onTestFinished(() => void child.kill('SIGKILL'))
      // It prints the key as soon as it has the lock.
      await once(child.stdout, 'data')
      return async () => {
        child.kill('SIGINT')
        await once(child, 'exit')
      }
    }

    test('what it holds is not given, until it gives it back', async () => {
      const locks = await locksAt(server.url)
      const name = freshName()
      const giveBack = await etcdctlHolds(name)
      expect(await locks.mutex(name).tryAcquire()).toBeNull()
      expect(await rejection(locks.mutex(name).acquire({ waitMs: 200 }))).toBeInstanceOf(AcquireTimeoutError)
      // Whoever gave up is told at once, and its key is removed a moment later.
      await until('nobody waits', async () => (await locks.inspect(name)).waiters.length === 0)
      const seen = await locks.inspect(name)
      expect(seen).toMatchObject({
        shape: { kind: 'mutex' },
        holders: [{ owner: { client: 'unknown' } }],
        waiters: [],
      })
      const waiting = locks.mutex(name).acquire()
      await until('it waits', async () => (await locks.inspect(name)).waiters.length === 1)
      await giveBack()
      await using hold = await waiting
      hold.assertHeld()
      expect(hold.fence / 1024n).toBeGreaterThan((seen.holders[0]?.fence ?? 0n) / 1024n)
    })

    test('what we hold it does not get, until we give it back', async () => {
      const locks = await locksAt(server.url)
      const name = freshName()
      const hold = await locks.mutex(name).acquire()
      let theirs = false
      const taking = etcdctlHolds(name).then((giveBack) => {
        theirs = true
        return giveBack
      })
      await until('it waits', async () => (await locks.inspect(name)).waiters.length === 1)
      await sleep(200)
      expect(theirs).toBe(false)
      await hold.release()
      const giveBack = await taking
      expect(await locks.mutex(name).tryAcquire()).toBeNull()
      // An operator can take it away from there as well.
      expect(await locks.evict(name, { reason: 'tested' })).toBeTruthy()
      await (await locks.mutex(name).acquire()).release()
      await giveBack()
    })

    test('an encoded name does not reach into another, and an exact one meets what etcdctl calls it', async () => {
      const encoded = await locksAt(server.url)
      const exact = await locksOver(await openEtcd(`${server.url}?exactPath=true&versionWarning=false`))
      const name = freshName()
      const giveBack = await etcdctlHolds(`${name}/inner`)
      expect(await exact.mutex(`${name}/inner`).tryAcquire()).toBeNull()
      await using _other = await encoded.mutex(`${name}/inner`).acquire()
      // It is how etcd's own locks nest: whoever holds the inner name is in the line of the outer one.
      expect(await encoded.mutex(name).tryAcquire()).toBeNull()
      await giveBack()
      await using hold = await encoded.mutex(name).acquire()
      hold.assertHeld()
    })

    test(`${ROUNDS} rounds of both on one name lose no count`, async () => {
      const name = freshName()
      const file = join(folder, 'count')
      await writeFile(file, '0')
      const ours = await Promise.all([locksAt(server.url), locksAt(server.url)])
      let left = ROUNDS
      const countUp = async (): Promise<void> => {
        const before = Number(await readFile(file, 'utf8'))
        await sleep(1)
        await writeFile(file, String(before + 1))
      }
      const we = ours.map(async (locks) => {
        for (let round = 0; round < ROUNDS / 4; round += 1) {
          await locks.mutex(name).run(countUp)
          left -= 1
        }
      })
      const script = `n=$(cat ${file}); sleep 0.001; echo $((n + 1)) > ${file}`
      const they = [1, 2].map(async () => {
        for (let round = 0; round < ROUNDS / 4; round += 1) {
          await etcdctl(server, 'lock', name, '--', 'sh', '-c', script)
          left -= 1
        }
      })
      await Promise.all([...we, ...they])
      expect(left).toBe(0)
      expect(Number(await readFile(file, 'utf8'))).toBe(ROUNDS)
      expect(await server.keys(`${name}/`)).toEqual([])
    })
  },
)
