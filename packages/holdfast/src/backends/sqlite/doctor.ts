/** Looks for what breaks locks in where a database lies. Most of that is refused when it is opened, so the list is short. */

import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Finding } from '../../core/doctor.js'
import { quote, UnsupportedError } from '../../core/errors.js'
import { sqliteBackend } from './backend.js'
import { thisMachine } from './clock.js'
import { fileError } from './errors.js'
import { refuseNetworkFileSystem } from './file-system.js'

const WRITABLE_BY_OTHERS = 0o022

/** A file that is not there is not made. */
export async function examineSqlite(path: string): Promise<Finding[]> {
  const file = resolve(path)
  const there = await modeOf(file)
  return [
    await checkClock(),
    ...(there === null ? await checkPlace(file) : [await checkFile(file), ...checkMode(there)]),
  ]
}

async function checkClock(): Promise<Finding> {
  try {
    await thisMachine()
    return ok('clock', "the machine's monotonic clock, with the id of this boot")
  } catch (error) {
    return refused('clock', error)
  }
}

/** The nearest folder that exists tells where the file would lie. */
async function checkPlace(file: string): Promise<Finding[]> {
  let folder = dirname(file)
  while ((await modeOf(folder)) === null) folder = dirname(folder)
  const found = `${quote(file)} is not there yet; the first who connects makes it, for its owner only`
  const missing: Finding = { level: 'note', check: 'file', found, advice: null }
  try {
    await refuseNetworkFileSystem(folder)
    return [missing, ok('file system', 'local')]
  } catch (error) {
    return [missing, refused('file system', error)]
  }
}

/** Opening it checks the file system, whose file it is, and that it can be in WAL mode. */
async function checkFile(file: string): Promise<Finding> {
  const backend = sqliteBackend({ path: file })
  try {
    await backend.open({ granted: ignore, hint: ignore, lost: ignore, wanted: ignore })
    return ok('file', `${quote(file)} lies on a local file system, in WAL mode`)
  } catch (error) {
    return refused('file', error)
  } finally {
    await backend.close()
  }
}

function checkMode(mode: number): Finding[] {
  if ((mode & WRITABLE_BY_OTHERS) === 0) return []
  return [
    {
      level: 'note',
      check: 'access',
      found: 'other users may write to the file, so they can break its locks',
      advice: 'That is right where several users share locks; otherwise `chmod 600` it.',
    },
  ]
}

async function modeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).mode
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw fileError(error, path)
  }
}

function ignore(): void {}

function ok(check: string, found: string): Finding {
  return { level: 'ok', check, found, advice: null }
}

/** What `connect()` would refuse as unusable is a finding; that it cannot be reached is none. */
function refused(check: string, error: unknown): Finding {
  if (!(error instanceof UnsupportedError)) throw error
  return { level: 'danger', check, found: error.message, advice: 'As it is, `connect()` refuses it.' }
}
