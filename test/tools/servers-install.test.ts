import { execFile, spawn } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { ensurePrograms, missingPrograms, missingReason, redisCommand } from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../support/titled.js'

const command = fileURLToPath(new URL('../../tools/servers/src/main.js', import.meta.url))

/** A folder of programs as the only one on PATH. Its apt-get writes down how it is called, and makes programs. */
async function machine(): Promise<{
  env: NodeJS.ProcessEnv
  calls: () => Promise<string[]>
  folder: string
}> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-machine-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const [bin, log] = [join(folder, 'bin'), join(folder, 'calls')]
  await mkdir(bin)
  await writeFile(log, '')
  for (const name of ['flock', 'sh', 'cat', 'env', 'sleep', 'chmod']) {
    await symlink(`/usr/bin/${name}`, join(bin, name))
  }
  await script(
    join(bin, 'apt-get'),
    `echo "$DEBIAN_FRONTEND $@" >> '${log}'
     sleep 0.2
     case "$*" in *install*redis-server*) echo '#!/bin/sh' > '${bin}/redis-server'; chmod +x '${bin}/redis-server';; esac`,
  )
  await script(join(bin, 'sudo'), 'shift; exec "$@"')
  const calls = async () => (await readFile(log, 'utf8')).split('\n').filter((line) => line !== '')
  return { env: { PATH: bin }, calls, folder: bin }
}

async function script(path: string, text: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\n${text}\n`)
  await chmod(path, 0o755)
}

function run(
  args: string[],
  env: NodeJS.ProcessEnv,
): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [command, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr })
    })
  })
}

describe.skipIf(process.platform !== 'linux')(
  titled('ensurePrograms', process.platform === 'linux' ? null : 'needs Linux'),
  () => {
    it('installs what is missing once, also when two processes ask', async () => {
      const { env, calls } = await machine()
      const args = ['install', 'redis']
      const results = await Promise.all([run(args, env), run(args, env)])
      expect(results.map(({ stdout }) => stdout.split('\n')[0])).toEqual([
        'redis-server: installed',
        'redis-server: installed',
      ])
      // The other programs are never made by this apt-get, so the second process asks for those again.
      const installs = (await calls()).filter((line) => / install .*redis-server/.test(line))
      expect(installs.length).toBe(1)
      expect(installs[0]).toMatch(/^noninteractive .*install -y --no-install-recommends redis-server/)
      expect((await calls())[0]).toMatch(/ update$/)
    })

    it('asks nobody for anything when all is there', async () => {
      const { env, calls, folder } = await machine()
      await script(join(folder, 'redis-server'), '')
      expect(await ensurePrograms(['redis-server'], { env })).toEqual([
        { name: 'redis-server', kind: 'present' },
      ])
      expect(await calls()).toEqual([])
    })

    it('says why an installation failed', async () => {
      const { env, folder } = await machine()
      await script(join(folder, 'apt-get'), 'echo "E: no network" >&2; exit 100')
      const [state] = await ensurePrograms(['redis-server'], { env })
      expect(state).toMatchObject({ kind: 'missing', reason: expect.stringContaining('E: no network') })
    })

    it.each([
      ['there is no apt-get', { PATH: '' }, 'only a Linux with apt-get'],
      ['it is forbidden', { PATH: '', HOLDFAST_INSTALL: 'no' }, 'HOLDFAST_INSTALL is no'],
    ])('says what to do when %s', async (_, env, why) => {
      const [state] = await ensurePrograms(['redis-server'], { env })
      expect(state?.kind).toBe('missing')
      expect(state?.reason).toContain('sudo apt-get install -y --no-install-recommends redis-server')
      expect(state?.reason).toContain('compose.yaml')
      expect(state?.reason).toContain(why)
    })

    it('refuses a program that it does not know', async () => {
      await expect(ensurePrograms(['redis'])).rejects.toThrow("no program 'redis'")
    })
  },
)

describe('the command', () => {
  it('explains itself, and refuses what it does not know', async () => {
    expect((await run(['--help'], process.env)).stdout).toContain('install [store...]')
    expect(await run(['begin'], process.env)).toMatchObject({ code: 2 })
    expect(await run(['start'], process.env)).toMatchObject({ code: 2 })
    expect(await run(['start', 'rediss'], process.env)).toMatchObject({ code: 2 })
    expect(await run(['install', 'rediss'], process.env)).toMatchObject({ code: 2 })
  })

  it('lists the stores and what they need', async () => {
    const { stdout } = await run(['list'], { PATH: '' })
    expect(stdout).toContain('sqlite: nothing to install\n')
    expect(stdout).toContain('redis-cluster: redis-server (missing: redis-server)\n')
  })

  it('fails when a required program is missing, and only then', async () => {
    const missing = await run(['install'], { PATH: '' })
    expect(missing.stdout).toContain('redis-server: missing: ')
    expect(missing.code).toBe(0)
    expect((await run(['install'], { PATH: '', HOLDFAST_REQUIRE_STORES: 'all' })).code).toBe(1)
    expect((await run(['install', 'sqlite'], { PATH: '', HOLDFAST_REQUIRE_STORES: 'sqlite' })).code).toBe(0)
    expect(await run(['start', 'redis'], { PATH: '' })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('redis: not run, because redis-server is not installed'),
    })
  })

  it.skipIf(missingPrograms(['redis-server']).length > 0)(
    titled(
      'starts a store and stays until it is told',
      missingPrograms(['redis-server']).length > 0 ? missingReason(['redis-server']) : null,
    ),
    async () => {
      const child = spawn(process.execPath, [command, 'start', 'redis'], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const ended = new Promise((resolve) => child.once('exit', resolve))
      let line = ''
      for await (line of createInterface({ input: child.stdout })) break
      const port = Number(new URL(line).port)
      expect(await redisCommand(port, ['PING'])).toBe('PONG')
      child.kill('SIGTERM')
      expect(await ended).toBe(0)
      await expect(redisCommand(port, ['PING'])).rejects.toThrow('ECONNREFUSED')
    },
  )
})
