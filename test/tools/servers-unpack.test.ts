import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensurePrograms, missingPrograms } from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { mirrorsIn, unpackProgram } from '../../tools/servers/src/unpack.js'
import { titled } from '../support/titled.js'

const command = fileURLToPath(new URL('../../tools/servers/src/main.js', import.meta.url))

const uris = `'http://mirror.invalid/debian/dists/trixie/InRelease' mirror.invalid_debian_dists_trixie_InRelease 0
'http://mirror.invalid/debian/dists/trixie-updates/InRelease' mirror.invalid_debian_dists_trixie-updates_InRelease 0
'http://mirror.invalid/debian/dists/trixie/main/binary-amd64/Packages.xz' mirror.invalid_Packages 0`

interface Machine {
  readonly env: NodeJS.ProcessEnv
  readonly bin: string
  /** The folder that MySQL is unpacked into. */
  readonly target: string
  readonly calls: () => Promise<string[]>
}

/**
 * A machine without MySQL, whose PATH has nothing but a few programs. Its apt-get writes down how it is called and which
 * sources it is given, and its packages hold a loader that is a shell script.
 */
async function machine(packages = 'mysql-server-core - MySQL database core server files'): Promise<Machine> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-machine-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const [bin, log, cache] = [join(folder, 'bin'), join(folder, 'calls'), join(folder, 'cache')]
  await mkdir(bin)
  await writeFile(log, '')
  for (const name of ['flock', 'sh', 'cat', 'sleep', 'chmod', 'mkdir', 'sed']) {
    await symlink(`/usr/bin/${name}`, join(bin, name))
  }
  await script(
    join(bin, 'apt-get'),
    `for arg in "$@"; do
       case "$arg" in
         Dir::Etc::SourceList=*) sources="$(cat "\${arg#*=}")";;
         Dir::Cache::archives=*) archives="\${arg#*=}";;
       esac
     done
     case "$*" in
       *--print-uris*) cat <<'END'
${uris}
END
       ;;
       *update*) echo "update $sources" >> '${log}';;
       *install*) sleep 0.2; echo "install $*" >> '${log}'; echo > "$archives/mysql.deb";;
     esac`,
  )
  await script(join(bin, 'apt-cache'), `echo '${packages}'`)
  await script(
    join(bin, 'dpkg-deb'),
    `libraries="$3/usr/lib/x86_64-linux-gnu"
     mkdir -p "$libraries" "$3/usr/sbin" "$3/usr/bin" "$3/usr/share/mysql"
     echo '#!/bin/sh' > "$3/usr/sbin/mysqld"
     printf '#!/bin/sh\\necho "$3  Ver 9.9.9 for Linux"\\n' > "$libraries/ld-linux-x86-64.so.2"
     chmod +x "$3/usr/sbin/mysqld" "$libraries/ld-linux-x86-64.so.2"`,
  )
  return {
    env: { PATH: bin, XDG_CACHE_HOME: cache },
    bin,
    target: join(cache, 'holdfast-servers', 'mysql'),
    calls: async () => (await readFile(log, 'utf8')).split('\n').filter((line) => line !== ''),
  }
}

async function script(path: string, text: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\n${text}\n`)
  await chmod(path, 0o755)
}

function run(args: string[], env: NodeJS.ProcessEnv): Promise<{ code: number; stdout: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [command, ...args], { env }, (error, stdout) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout })
    })
  })
}

describe('mirrorsIn', () => {
  it('gives the mirrors of the distribution first, each once', () => {
    const other = "'https://other.invalid/linux/debian/dists/trixie/InRelease' other 0"
    const security = "'http://mirror.invalid/debian-security/dists/trixie-security/InRelease' security 0"
    expect(mirrorsIn([other, security, uris].join('\n'))).toEqual([
      'http://mirror.invalid/debian',
      'https://other.invalid/linux/debian',
    ])
    expect(mirrorsIn("'mirror+file:/etc/apt/mirrors/debian.list/dists/sid/InRelease' list 0")).toEqual([
      'mirror+file:/etc/apt/mirrors/debian.list',
    ])
    expect(mirrorsIn('E: no sources')).toEqual([])
  })
})

describe.skipIf(process.platform !== 'linux')(
  titled('getting MySQL', process.platform === 'linux' ? null : 'needs Linux'),
  () => {
    it('unpacks it once, also when two processes ask', async () => {
      const { env, calls, target } = await machine()
      await mkdir(`${target}.partial-left`, { recursive: true })
      const results = await Promise.all([run(['install', 'mysql'], env), run(['install', 'mysql'], env)])
      expect(results).toEqual([
        { code: 0, stdout: 'mysqld: installed\n' },
        { code: 0, stdout: 'mysqld: installed\n' },
      ])
      const installs = (await calls()).filter((line) => line.startsWith('install '))
      expect(installs.length).toBe(1)
      expect(installs[0]).toMatch(/--download-only --no-install-recommends mysql-server-core$/)
      expect(await readFile(join(target, 'holdfast-complete'), 'utf8')).toBe('Ver 9.9.9 for Linux\n')
      expect(existsSync(join(target, 'usr', 'bin'))).toBe(false)
      expect(await readdir(join(target, '..'))).toEqual(['mysql'])
      expect((await run(['install', 'mysql'], env)).stdout).toBe('mysqld: present\n')
      expect((await run(['list'], env)).stdout).toContain('mysql: mysqld\n')
    })

    it('takes it from the unstable suite of the same mirror on Debian', async () => {
      const { env, calls } = await machine()
      expect(await unpackProgram('mysql', env, 'debian')).toBeUndefined()
      expect((await calls())[0]).toMatch(
        /^update deb (\[signed-by=\S+\] )?http:\/\/mirror\.invalid\/debian sid main$/,
      )
    })

    it('takes the newest of the sources of the machine elsewhere', async () => {
      const { env, calls } = await machine(
        'mysql-server-core-8.0 - a\nmysql-server-core-8.10 - b\nmysql-server-core-8.4 - d\nmysql-server-core-x - c',
      )
      expect(await unpackProgram('mysql', env, 'ubuntu')).toBeUndefined()
      expect((await calls())[0]).toBe('update ')
      expect((await calls())[1]).toMatch(/ mysql-server-core-8\.10$/)
    })

    it('does not take a folder that is not complete for MySQL', async () => {
      const { env, target } = await machine()
      expect(await unpackProgram('mysql', env, 'debian')).toBeUndefined()
      expect(missingPrograms(['mysqld'], env)).toEqual([])
      await rm(join(target, 'holdfast-complete'))
      expect(missingPrograms(['mysqld'], env)).toEqual(['mysqld'])
      expect(await unpackProgram('mysql', env, 'debian')).toBeUndefined()
      expect(missingPrograms(['mysqld'], env)).toEqual([])
    })

    it('says why it cannot be had, and leaves nothing behind', async () => {
      const { env, bin, target } = await machine()
      const missing = async (settings: NodeJS.ProcessEnv = {}) => {
        const [state] = await ensurePrograms(['mysqld'], { env: { ...env, ...settings } })
        expect(state?.kind).toBe('missing')
        expect(state?.reason).toContain('get it with `npm run servers -- install mysql`')
        return state?.reason
      }
      expect(await missing({ HOLDFAST_INSTALL: 'no' })).toContain('HOLDFAST_INSTALL is no')
      expect(await missing({ PATH: '' })).toContain('only a Linux with apt-get')
      expect(await missing({ XDG_CACHE_HOME: '/dev/null' })).toContain('ENOTDIR')
      await script(join(bin, 'apt-cache'), '')
      expect(await missing()).toContain('no source of apt on this machine has a MySQL server')
      await script(join(bin, 'dpkg-deb'), 'echo "no space left" >&2; exit 2')
      await script(join(bin, 'apt-cache'), 'echo "mysql-server-core - a"')
      expect(await missing()).toContain('no space left')
      await script(join(bin, 'apt-get'), 'echo "E: no network" >&2; exit 100')
      // A Debian has told no mirror then, and any other machine could not bring its lists up to date.
      expect(await missing()).toMatch(/no mirror of Debian|no network/)
      expect(await readdir(join(target, '..'))).toEqual([])
    })

    it('does not take the program of MariaDB for MySQL', async () => {
      const { env, bin } = await machine()
      await script(join(bin, 'mysqld'), 'echo "$0  Ver 10.11.19-MariaDB for Linux"')
      expect(missingPrograms(['mysqld'], { ...env, HOLDFAST_MYSQL_BIN: bin })).toEqual(['mysqld'])
      await script(join(bin, 'mysqld'), 'echo "$0  Ver 8.4.6 for Linux"')
      expect(missingPrograms(['mysqld'], { ...env, HOLDFAST_MYSQL_BIN: bin })).toEqual([])
    })
  },
)

describe.skipIf(process.platform !== 'linux')(
  titled('getting PostgreSQL and MariaDB', process.platform === 'linux' ? null : 'needs Linux'),
  () => {
    it.each([
      ['postgres', 'postgresql', ['postgres', 'initdb']],
      ['mariadb', 'mariadb-server', ['mariadbd', 'mariadb-install-db']],
    ])('says that a part is missing: %s', async (store, packageName, programs) => {
      const folder = await mkdtemp(join(tmpdir(), 'holdfast-part-'))
      onTestFinished(() => rm(folder, { recursive: true, force: true }))
      const env = { PATH: '', [`HOLDFAST_${store.toUpperCase()}_BIN`]: folder }
      for (const name of programs) {
        const { stdout } = await run(['install', store], env)
        expect(stdout).toContain(
          `is not installed; get it with \`sudo apt-get install -y --no-install-recommends ${packageName}\``,
        )
        expect((await run(['install', store], { ...env, HOLDFAST_REQUIRE_STORES: store })).code).toBe(1)
        expect((await run(['start', store], env)).code).toBe(1)
        await script(join(folder, name), '')
      }
      expect((await run(['install', store], env)).stdout).toMatch(/: present\n$/)
    })
  },
)
