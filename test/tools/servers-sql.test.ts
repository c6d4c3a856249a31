import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import {
  missingPrograms,
  missingReason,
  mysqlQuery,
  postgresQuery,
  requiredStores,
  storeFor,
  stores,
} from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { isDeep } from '../support/depth.js'
import { titled } from '../support/titled.js'
import { until } from '../support/wait.js'
import { type Connection, type Kind, kinds, type Server } from './sql-kinds.js'

const required = requiredStores(process.env.HOLDFAST_REQUIRE_STORES, [...stores.keys()])
const isMissing = ({ program }: Kind) => missingPrograms([program]).length > 0
for (const kind of kinds) {
  if (isMissing(kind) && required.has(kind.name))
    throw new Error(`${kind.program} is required and not there.`)
}

/** Disposes of what a test started, whatever comes of the test. */
async function started<T extends { dispose(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  const thing = await starting
  onTestFinished(() => thing.dispose())
  return thing
}

async function opened(kind: Kind, server: Server): Promise<Connection> {
  const connection = await kind.connect(server.url)
  onTestFinished(() => connection.close().catch(() => undefined))
  return connection
}

function pidOf(server: Server): number {
  if (server.pid === undefined) throw new Error('The server does not run.')
  return server.pid
}

/** A process that has ended and that nobody has collected does not count. */
function isAlive(pid: number): boolean {
  const file = `/proc/${pid}/stat`
  return existsSync(file) && !/\) Z /.test(readFileSync(file, 'utf8'))
}

/** The process and its children. */
function familyOf(pid: number): number[] {
  const isChild = (name: string) => {
    const file = `/proc/${name}/stat`
    return existsSync(file) && new RegExp(`\\) \\w ${pid} `).test(readFileSync(file, 'utf8'))
  }
  return [
    pid,
    ...readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && isChild(name))
      .map(Number),
  ]
}

function setForTest(name: string, value: string): void {
  const before = process.env[name]
  process.env[name] = value
  onTestFinished(() => {
    if (before === undefined) delete process.env[name]
    else process.env[name] = before
  })
}

/** Gives the rest of a test a cache folder that has the programs of the present one, and no template. */
async function emptyCache(): Promise<string> {
  const present = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'holdfast-servers', 'mysql')
  const cache = await mkdtemp(join(tmpdir(), 'holdfast-cache-'))
  onTestFinished(() => rm(cache, { recursive: true, force: true }))
  await mkdir(join(cache, 'holdfast-servers'))
  if (existsSync(present)) await symlink(present, join(cache, 'holdfast-servers', 'mysql'))
  setForTest('XDG_CACHE_HOME', cache)
  return join(cache, 'holdfast-servers', 'templates')
}

function isRefused(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    socket.once('error', () => resolve(true))
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
  })
}

/** Those of some processes that have made shared memory which is still there. */
function makersOfMemory(pids: readonly number[]): number[] {
  // The columns are the identifier, the owner, the process that made it, and the one that used it last.
  const { stdout } = spawnSync('ipcs', ['-m', '-p'], { encoding: 'utf8' })
  const makers = new Set(stdout.split('\n').map((line) => Number(line.trim().split(/\s+/)[2])))
  return pids.filter((pid) => makers.has(pid))
}

for (const kind of kinds) {
  describe.skipIf(isMissing(kind))(
    titled(`a server of ${kind.name}`, isMissing(kind) ? missingReason([kind.program]) : null),
    () => {
      /** One server for the tests that leave it running as it was. */
      let server: Server
      beforeAll(async () => {
        server = await kind.start()
      })
      afterAll(() => server?.dispose())

      it('answers the driver, on the loopback address only', async () => {
        expect(server.url).toMatch(kind.url)
        expect(server.url).toContain(`${server.host}:${server.port}/`)
        expect(server.port).toBeLessThan(32_768)
        const driver = await opened(kind, server)
        expect(await driver.query("select 'käse' as a, 7 as b")).toEqual([{ a: 'käse', b: 7 }])
        const [[version] = []] = await server.query('select version()')
        expect(version).toMatch(kind.version)
        expect(await server.query(kind.limit)).toEqual([['400']])
        if (process.platform === 'linux') expect(await isRefused('127.0.0.2', server.port)).toBe(true)
      })

      it('asks it something without a driver', async () => {
        expect(await server.query('create table things (id int primary key, name varchar(9000))')).toEqual([])
        const long = 'ü'.repeat(4_000)
        await server.query(`insert into things values (1, 'one'), (2, null), (3, ''), (4, '${long}')`)
        expect(await server.query('select * from things order by id')).toEqual([
          ['1', 'one'],
          ['2', null],
          ['3', ''],
          ['4', long],
        ])
        expect(await server.query('select * from things where id > 9')).toEqual([])
        await expect(server.query('select nothing from nowhere')).rejects.toMatchObject({
          name: 'QueryError',
          code: kind.name === 'postgres' ? '42P01' : '1146',
          message: expect.stringContaining('nowhere'),
        })
        await expect(server.query('select 1', { user: 'nobody', database: 'none' })).rejects.toThrow(/nobody/)
      })

      it('takes settings that win, and says what the server wrote when it does not start', async () => {
        const set = await started(kind.start({ args: kind.setting.args }))
        expect(await set.query(kind.setting.query)).toEqual([['77']])
        const wrong = kind.name === 'postgres' ? ['-c', 'no_such_setting=1'] : ['--no-such-setting=1']
        await expect(kind.start({ args: wrong })).rejects.toThrow(/no[-_]such[-_]setting/)
      })

      it('keeps the data and the port over a restart', async () => {
        const before = { port: server.port, pid: server.pid }
        await server.query('create table kept (id int)')
        await server.query('insert into kept values (1)')
        // A client that does not leave is no reason to wait.
        const driver = await opened(kind, server)
        await driver.query('select 1')
        await server.restart()
        expect(server.port).toBe(before.port)
        expect(server.pid).not.toBe(before.pid)
        expect(await server.query('select * from kept')).toEqual([['1']])
        expect(server.logTail()).not.toMatch(/crash|recover(y|ed) (of|from)|interrupted/i)
      })

      it('keeps what was committed over a crash, and nothing else', async () => {
        await server.query('create table committed (id int primary key)')
        const [first, second] = [await opened(kind, server), await opened(kind, server)]
        await first.query('begin')
        await first.query('insert into committed values (0)')
        for (let id = 1; id <= 50; id += 1) await second.query(`insert into committed values (${id})`)
        const family = familyOf(pidOf(server))
        expect(family.length > 1).toBe(kind.name === 'postgres')
        await server.kill()
        expect(family.filter(isAlive)).toEqual([])
        expect(server.running).toBe(false)
        await expect(first.query('select 1')).rejects.toThrow()
        await expect(server.query('select 1')).rejects.toThrow('ECONNREFUSED')
        await server.restart()
        expect(await server.query('select count(*), min(id), max(id) from committed')).toEqual([
          ['50', '1', '50'],
        ])
      })

      it('answers nothing while it is paused, and goes on where it was', async () => {
        const driver = await opened(kind, server)
        await driver.query('select 1')
        await server.pause()
        expect(server.answering).toBe(false)
        let answered = false
        const answer = driver.query('select 5 as five').then((rows) => {
          answered = true
          return rows
        })
        const ask = kind.name === 'postgres' ? postgresQuery : mysqlQuery
        await expect(ask(server.port, 'select 1', { timeoutMs: 300 })).rejects.toThrow('did not answer')
        expect(answered).toBe(false)
        await server.resume()
        expect(await answer).toEqual([{ five: 5 }])
        expect(await server.query('select 6')).toEqual([['6']])
        expect(server.answering).toBe(true)
      })

      it('leaves no process, no folder and no memory behind, also when it was paused', async () => {
        const server = await kind.start()
        const driver = await opened(kind, server)
        await driver.query('select 1')
        await server.pause()
        const first = familyOf(pidOf(server))
        expect(makersOfMemory(first)).toEqual(kind.name === 'postgres' ? [server.pid] : [])
        await server.stop()
        expect(first.filter(isAlive)).toEqual([])
        await server.restart()
        await server.kill()
        await server.restart()
        await server.pause()
        const [second, folder] = [familyOf(pidOf(server)), server.folder]
        await Promise.all([server.dispose(), server.dispose()])
        expect(second.filter(isAlive)).toEqual([])
        expect(existsSync(folder)).toBe(false)
        expect(makersOfMemory([...first, ...second])).toEqual([])
        await expect(server.restart()).rejects.toThrow('disposed')
      })

      it('ends with the process that started it, also when it is paused', async () => {
        const functions = { postgres: 'startPostgres', mariadb: 'startMariadb', mysql: 'startMysql' }
        const program = `
        import { ${functions[kind.name]} as start } from 'holdfast-servers'
        const servers = await Promise.all([start(), start()])
        await servers[1].pause()
        console.log(JSON.stringify(servers.map(({ pid, folder }) => ({ pid, folder }))))
        setInterval(() => undefined, 1_000)
      `
        const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        onTestFinished(() => void child.kill('SIGKILL'))
        let line = ''
        for await (line of createInterface({ input: child.stdout })) break
        const servers: { pid: number; folder: string }[] = JSON.parse(line)
        expect(servers.filter(({ pid }) => isAlive(pid)).length).toBe(2)
        const pids = servers.flatMap(({ pid }) => familyOf(pid))
        child.kill('SIGKILL')
        await until('the servers ended', () => !pids.some(isAlive))
        await until('the folders are removed', () => !servers.some(({ folder }) => existsSync(folder)))
        expect(makersOfMemory(pids)).toEqual([])
      })

      const isLong = kind.name === 'mysql' && !isDeep
      const why = isLong ? 'skipped: MariaDB does the same; `npm run test:deep` runs it' : null
      it.skipIf(isLong)(
        titled('starts from data that is made once, or anew where nothing can be kept', why),
        async () => {
          const templates = await emptyCache()
          const servers = await Promise.all([1, 2].map(() => started(kind.start())))
          await servers[0]?.query('create table mine (id int)')
          await expect(servers[1]?.query('select * from mine')).rejects.toThrow('mine')
          expect(readdirSync(templates)).toEqual([expect.stringMatching(`^${kind.name}-[0-9a-f]+$`)])
          await rm(templates, { recursive: true })
          await writeFile(templates, 'This is no folder.')
          expect(await (await started(kind.start())).query('select 1')).toEqual([['1']])
        },
      )
    },
  )

  describe(`the store ${kind.name}`, () => {
    it.skipIf(isMissing(kind))(
      titled('has a control with a type', isMissing(kind) ? missingReason([kind.program]) : null),
      async () => {
        const outcome = await storeFor(kind.name)
        if (outcome.kind !== 'ready') throw new Error(outcome.reason)
        const { control, url } = outcome.store
        expect(url).toBe(control.url)
        expect(await control.query('select 1')).toEqual([['1']])
        await outcome.store.dispose()
        await outcome.store.dispose()
        expect(control.running).toBe(false)
      },
    )

    it('is not run without the program', async () => {
      setForTest(`HOLDFAST_${kind.name.toUpperCase()}_BIN`, '/nowhere')
      const outcome = await storeFor(kind.name, stores, {})
      const how = kind.name === 'mysql' ? 'npm run servers -- install mysql' : 'sudo apt-get install'
      expect(outcome).toMatchObject({
        kind: 'not run',
        name: kind.name,
        reason: expect.stringContaining(how),
      })
      const requiring = storeFor(kind.name, stores, { HOLDFAST_REQUIRE_STORES: kind.name })
      await expect(requiring).rejects.toThrow('is required')
    })
  })
}
