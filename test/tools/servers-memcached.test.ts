import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type MemcachedServer,
  memcachedCommand,
  missingPrograms,
  missingReason,
  requiredStores,
  startMemcached,
  storeFor,
  stores,
} from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../support/titled.js'

const [missing] = missingPrograms(['memcached'])
const required = requiredStores(process.env['HOLDFAST_REQUIRE_STORES'], [...stores.keys()])
if (missing !== undefined && required.has('memcached'))
  throw new Error(`${missing} is required and not there.`)

async function started(...options: Parameters<typeof startMemcached>): Promise<MemcachedServer> {
  const server = await startMemcached(...options)
  onTestFinished(() => server.dispose())
  return server
}

describe.skipIf(missing !== undefined)(
  titled('startMemcached', missing === undefined ? null : missingReason([missing])),
  () => {
    it('gives a server on the loopback address that answers, with the memory and arguments asked for', async () => {
      const server = await started({ memoryMb: 7, args: ['-M'] })
      expect(server.url).toBe(`memcached://127.0.0.1:${server.port}`)
      expect(server.port).toBeLessThan(32_768)
      const settings = await server.stats('settings')
      expect(settings['maxbytes']).toBe(String(7 * 1024 * 1024))
      expect(settings['evictions']).toBe('off')
      expect(settings['inter']).toBe('127.0.0.1')
      expect(settings['udpport']).toBe('0')
      expect((await server.stats())['pid']).toBe(String(server.pid))
    })

    it('forgets everything by flushAll(), by restart() and by kill(), and keeps its port', async () => {
      const server = await started()
      const { port, pid } = server
      expect(await server.command('ms kept 1 T60 c\r\nx')).toBe('HD c2')
      await server.flushAll()
      expect(await server.command('mg kept')).toBe('EN')
      await server.command('ms kept 1 T60\r\nx')
      await server.restart()
      expect(server.port).toBe(port)
      expect(server.pid).not.toBe(pid)
      expect(await server.command('mg kept')).toBe('EN')
      await server.command('ms kept 1 T60\r\nx')
      await server.kill()
      await expect(server.command('mg kept')).rejects.toThrow()
      await server.restart()
      expect(await server.command('mg kept')).toBe('EN')
    })

    it('can be paused: connections are taken, and nothing is answered until it goes on', async () => {
      const server = await started()
      await server.pause()
      await expect(memcachedCommand(server.port, 'mn', undefined, { timeoutMs: 300 })).rejects.toThrow(
        'did not answer',
      )
      await server.resume()
      expect(await server.command('mn')).toBe('MN')
    })

    it('drives items out where it has little memory', async () => {
      const server = await started({ memoryMb: 2 })
      const fill = Array.from({ length: 60_000 }, (_, index) => `ms f${index} 5 T600 q\r\nxxxxx`).join('\r\n')
      await memcachedCommand(server.port, `ms first 1 T600\r\nx\r\n${fill}\r\nmn`, /MN\r\n$/, {
        timeoutMs: 30_000,
      })
      expect(Number((await server.stats())['evictions'])).toBeGreaterThan(1_000)
      expect(await server.command('mg first')).toBe('EN')
    })

    it('is there with passwords, too', async () => {
      const folder = (await started()).folder
      const file = join(folder, 'users')
      await writeFile(file, 'anna:secret\n', { mode: 0o644 })
      // The server of the other user has to reach the file.
      const { chmod } = await import('node:fs/promises')
      await chmod(folder, 0o755)
      const server = await started({ args: ['-Y', file] })
      expect(await server.command('mn')).toMatch(/^CLIENT_ERROR unauthenticated/)
      expect(await server.command('set a 0 0 11\r\nanna secret')).toBe('STORED')
    })

    it('is a store, and leaves nothing behind', async () => {
      const outcome = await storeFor('memcached')
      if (outcome.kind !== 'ready') throw new Error(outcome.reason)
      const { control, url, dispose } = outcome.store
      expect(url).toBe(control.url)
      await dispose()
      expect(existsSync(control.folder)).toBe(false)
      expect(control.running).toBe(false)
    })
  },
)
