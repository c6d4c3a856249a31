import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { missingReason, startZookeeper, type ZookeeperServer } from 'holdfast-servers'
import ts from 'typescript'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../../test/support/titled.js'
import { missing } from './support.js'

const sources = fileURLToPath(new URL('../../../src/', import.meta.url))

/** The client as plain JavaScript, for a process of its own. It needs nothing but these files. */
function writeClient(folder: string): void {
  const wire = readdirSync(join(sources, 'backends/zookeeper/wire')).map((name) => `zookeeper/wire/${name}`)
  const backends = [...wire, 'zookeeper/clock.ts', 'shared/clock.ts'].map((name) => `backends/${name}`)
  for (const name of [...backends, 'core/async-context.ts']) {
    const source = readFileSync(join(sources, name), 'utf8')
    const { outputText } = ts.transpileModule(source, {
      compilerOptions: {
        target: ts.ScriptTarget.ES2022,
        module: ts.ModuleKind.ESNext,
        verbatimModuleSyntax: true,
      },
    })
    const path = join(folder, name.replace(/\.ts$/, '.js'))
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, outputText)
  }
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
}

let server: ZookeeperServer
let folder: string

/** Runs a script with a connected `client`, and gives what it wrote when it ended by itself. */
function run(script: string, timeoutMs: number): Promise<{ output: string; code: number | null }> {
  const lines = [
    `import { ZooKeeper } from ${JSON.stringify(join(folder, 'backends/zookeeper/wire/zookeeper.js'))}`,
    `const hosts = [{ host: '127.0.0.1', port: ${server.port} }]`,
    'const client = await ZooKeeper.connect({ hosts, sessionMs: 3_000 })',
    script,
  ]
  const child = spawn(process.execPath, ['--input-type=module', '-e', lines.join('\n')], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ output, code }))
  })
}

describe.skipIf(missing !== undefined)(
  titled('a process with a ZooKeeper client', missing === undefined ? null : missingReason([missing])),
  () => {
    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), 'holdfast-zookeeper-client-'))
      writeClient(folder)
      server = await startZookeeper()
    })
    afterAll(async () => {
      rmSync(folder, { recursive: true, force: true })
      await server?.dispose()
    })

    it('ends although the session is open', async () => {
      const script = `await client.create('/ends', Buffer.alloc(0), { mode: 'ephemeral' }); console.log(client.state)`
      expect(await run(script, 120_000)).toEqual({ output: 'connected\n', code: 0 })
    })

    it('ends although a watch waits', async () => {
      const script = `await client.exists('/none', () => undefined); console.log('watching')`
      expect(await run(script, 120_000)).toEqual({ output: 'watching\n', code: 0 })
    })

    it('lives while an answer is awaited, and while the session is closed', async () => {
      const script = `
      client.exists('/').then(async () => {
        await client.close()
        console.log(client.state)
      })`
      expect(await run(script, 120_000)).toEqual({ output: 'closed\n', code: 0 })
    })

    it('lives until a server that hangs is given up, and ends although it is looked for', async () => {
      const script = `
      console.log('asking')
      process.kill(${server.pid}, 'SIGSTOP')
      setTimeout(() => client.exists('/').catch((error) => console.log(error.code, client.state)), 300)`
      const ended = await run(script, 120_000)
      if (server.pid !== undefined) process.kill(server.pid, 'SIGCONT')
      expect(ended).toEqual({ output: 'asking\nCONNECTION_LOSS suspended\n', code: 0 })
    })
  },
)
