import type { Stats } from 'node:fs'
import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { type AuthEntry, AuthFileError, type AuthTokens, checkAuth, parseAuth } from './auth-entries.js'
import { digestOfToken, mintToken } from './bearer-tokens.js'

/** Reads an auth file; one that is not there yet has no tokens. */
export async function readAuth(path: string): Promise<AuthTokens> {
  try {
    return parseAuth(await readFile(path, 'utf8'))
  } catch (error) {
    if (isCode(error, 'ENOENT')) return { tokens: [] }
    throw error
  }
}

/** Adds a token and returns it. This is the only time that it can be seen: the file keeps its digest. */
export async function addToken(path: string, entry: Omit<AuthEntry, 'sha256'>): Promise<string> {
  const token = mintToken()
  await change(path, ({ tokens }) => {
    if (tokens.some(({ name }) => name === entry.name)) {
      throw new AuthFileError(`there is a token named ${entry.name} already: revoke it first`)
    }
    return { tokens: [...tokens, { ...entry, sha256: digestOfToken(token) }] }
  })
  return token
}

/** Takes a token out; false: there is none of that name. */
export async function removeToken(path: string, name: string): Promise<boolean> {
  let found = false
  await change(path, ({ tokens }) => {
    const rest = tokens.filter((entry) => entry.name !== name)
    found = rest.length < tokens.length
    return { tokens: rest }
  })
  return found
}

/** Two that change the file at once would undo each other's work, and a token that was revoked would be back. */
async function change(path: string, edit: (tokens: AuthTokens) => AuthTokens): Promise<void> {
  const lockPath = `${path}.lock`
  const lock = await open(lockPath, 'wx', 0o600).catch((error: unknown) => {
    if (!isCode(error, 'EEXIST')) throw error
    throw new AuthFileError(`another command is changing it; if none is, remove the file ${lockPath}`)
  })
  try {
    const tokens = checkAuth(edit(await readAuth(path)))
    await replaceFile(path, `${JSON.stringify(tokens, null, 2)}\n`)
  } finally {
    await lock.close()
    // What could not be put in its place is of no use to anybody.
    await rm(nextOf(path), { force: true })
    await rm(lockPath, { force: true })
  }
}

function nextOf(path: string): string {
  return `${path}.next`
}

/** Owner and group may look into the file, where they could before; others may not. */
const MODE_KEPT = 0o640
const GROUP_READS = 0o040

/** Whoever reads the file meanwhile sees the old one or the new one, whole. A first one is for its owner only. */
async function replaceFile(path: string, text: string): Promise<void> {
  const next = nextOf(path)
  // What a crash may have left: its mode would stay.
  await rm(next, { force: true })
  const file = await open(next, 'wx', 0o600)
  try {
    const old = await stat(path).catch(() => null)
    if (old !== null) await keepReaders(file, old)
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(next, path)
}

type NewFile = Pick<FileHandle, 'chown' | 'chmod'> & { stat(): Promise<Pick<Stats, 'uid' | 'gid'>> }

/**
 * The service may run as another user, who owns the file or reads it by its group. If it could not read the new one, what
 * was revoked would stay in force, so then nothing is changed.
 */
export async function keepReaders(file: NewFile, old: Pick<Stats, 'uid' | 'gid' | 'mode'>): Promise<void> {
  const { uid } = await file.stat()
  await file
    .chown(old.uid, old.gid)
    // Only root can give a file to another user, but to a group each of its members can.
    .catch(() => file.chown(uid, old.gid))
    // What came of it is looked at below.
    .catch(() => undefined)
  const { gid } = await file.stat()
  const mode = old.mode & MODE_KEPT
  if (gid !== old.gid && (mode & GROUP_READS) !== 0) {
    throw new AuthFileError(
      'its group may read it and could not be kept: do this as root, or as a member of that group',
    )
  }
  await file.chmod(mode)
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
