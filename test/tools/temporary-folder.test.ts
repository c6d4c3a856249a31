import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { envOf, ReportFiles } from '../../tools/test/command.mjs'
import { TemporaryFolder } from '../../tools/test/temporary-folder.mjs'

const MEMORY = '/dev/shm'

const made: TemporaryFolder[] = []

afterEach(() => {
  for (const folder of made.splice(0)) folder.remove()
})

function folderFor(env: NodeJS.ProcessEnv, parent?: string): TemporaryFolder {
  const folder = new TemporaryFolder(env, parent)
  made.push(folder)
  return folder
}

/** The machine may have no room in memory, and then all steps use the disk. */
const hasRoom = ((): boolean => {
  const folder = new TemporaryFolder({})
  folder.remove()
  return folder.path !== null
})()

const inMemory = hasRoom
  ? (title: string, run: () => void) => it(title, run)
  : (title: string) => it.skip(`${title} (not run: the machine has no room in ${MEMORY})`)

describe('the temporary folder of a run', () => {
  inMemory('is in memory, other users can enter it, and the run removes it', () => {
    const folder = folderFor({})
    const path = folder.path ?? ''
    expect(path.startsWith(`${MEMORY}/holdfast-test-${process.pid}-`)).toBe(true)
    expect(statSync(path).mode & 0o777).toBe(0o755)
    expect(folder.env).toEqual({ TMPDIR: path })
    folder.remove()
    expect(existsSync(path)).toBe(false)
  })

  inMemory('removes the folders of runs that were killed, and no others', () => {
    const { pid } = spawnSync(process.execPath, ['--version'])
    const abandoned = join(MEMORY, `holdfast-test-${pid}-abandoned`)
    const other = join(MEMORY, `holdfast-other-${pid}-abandoned`)
    for (const each of [abandoned, other]) mkdirSync(each)
    try {
      const running = folderFor({})
      folderFor({})
      expect([abandoned, other, running.path ?? ''].map((each) => existsSync(each))).toEqual([
        false,
        true,
        true,
      ])
    } finally {
      rmSync(other, { recursive: true })
    }
  })

  it('is the one of the system where the caller has chosen one, or where the folder is on the disk or missing', () => {
    expect(folderFor({ TMPDIR: '/elsewhere' }).env).toEqual({})
    expect(folderFor({}, '/proc').env).toEqual({})
    expect(folderFor({}, join(tmpdir(), 'missing')).env).toEqual({})
  })

  it('is for the steps that test, and not for those that install and build', () => {
    const files = new ReportFiles()
    files.remove()
    const temporary = { TMPDIR: '/elsewhere' }
    const step = { command: 'true', args: [], what: '' }
    expect(envOf({ ...step, name: 'install', required: true }, files, temporary)).toEqual({})
    expect(envOf({ ...step, name: 'lab' }, files, temporary)).toEqual(temporary)
    expect(envOf({ ...step, name: 'tests' }, files, temporary)).toEqual({ ...temporary, ...files.testsEnv })
  })
})
