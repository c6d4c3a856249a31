// @ts-check
// To make the data folder of a database server takes seconds. It is done once per machine and version; every server
// then gets a copy.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder } from './cache.js'

const run = promisify(execFile)
const makeMs = 280_000

/**
 * How to make a data folder.
 * @typedef {object} DataRecipe
 * @property {string} name
 * @property {readonly string[]} versionCommand What it prints is part of the key, so that another version gets data of
 *   its own.
 * @property {(data: string, setUpFile: string) => readonly (readonly string[])[]} commands What makes the folder, one
 *   after the other.
 * @property {string} [setUp] What the commands find in the file, and the last of them on its input too.
 * @property {(folder: string) => Promise<void>} [prepare] Readies the empty folder that the data folder is made in.
 * @property {readonly string[]} [forget] Files that every server must have of its own.
 */

/**
 * Templates that are being made by this process: two servers that start at once need only one.
 * @type {Map<string, Promise<void>>}
 */
const underway = new Map()

/**
 * Gives a folder its data folder, `data`.
 * @param {DataRecipe} recipe
 * @param {string} folder
 */
export async function makeData(recipe, folder) {
  const template = await templateOf(recipe)
  if (template === undefined) return makeFresh(recipe, folder)
  await recipe.prepare?.(folder)
  await copy(template, join(folder, 'data'))
}

/**
 * @param {string} from
 * @param {string} to
 */
function copy(from, to) {
  // The owner is kept, because PostgreSQL wants to be the owner of its data. Two thirds of MySQL's files are zeros.
  return run('cp', ['-a', '--sparse=always', from, to], { timeout: makeMs })
}

/**
 * @param {DataRecipe} recipe
 * @returns {Promise<string | undefined>} Undefined if nothing can be kept on this machine.
 */
async function templateOf(recipe) {
  const [program = '', ...args] = recipe.versionCommand
  const { stdout: version } = await run(program, args)
  // What was made by another user may be unreadable, and what was made by other commands may be something else.
  const facts = [version, process.getuid?.(), recipe.commands('data', 'file'), recipe.setUp, recipe.forget]
  const digest = createHash('sha256').update(JSON.stringify(facts)).digest('hex')
  const templates = join(cacheFolder(), 'templates')
  const template = join(templates, `${recipe.name}-${digest.slice(0, 16)}`)
  if (existsSync(template)) return template
  try {
    await mkdir(templates, { recursive: true })
  } catch {
    return undefined
  }
  const making = underway.get(template) ?? makeTemplate(recipe, template)
  underway.set(template, making)
  try {
    await making
  } finally {
    underway.delete(template)
  }
  return template
}

/**
 * @param {DataRecipe} recipe
 * @param {string} template
 */
async function makeTemplate(recipe, template) {
  // It is made in the temporary folder, since another user may have to reach it, and then appears under its name as a
  // whole.
  const folder = await mkdtemp(join(tmpdir(), `holdfast-${recipe.name}-template-`))
  const partial = `${template}.partial-${basename(folder)}`
  try {
    await makeFresh(recipe, folder)
    await copy(join(folder, 'data'), partial)
    await rename(partial, template)
  } catch (error) {
    // Somebody else was faster, and what he made is as good.
    if (!existsSync(template)) throw error
  } finally {
    await Promise.all([folder, partial].map((each) => rm(each, { recursive: true, force: true })))
  }
}

/**
 * @param {DataRecipe} recipe
 * @param {string} folder
 */
async function makeFresh(recipe, folder) {
  await recipe.prepare?.(folder)
  const [data, setUpFile] = [join(folder, 'data'), join(folder, 'set-up')]
  await writeFile(setUpFile, recipe.setUp ?? '')
  const commands = recipe.commands(data, setUpFile)
  for (const command of commands) await runWith(command, command === commands.at(-1) ? recipe.setUp : '')
  for (const name of recipe.forget ?? []) await rm(join(data, name), { force: true })
}

/**
 * @param {readonly string[]} command
 * @param {string | undefined} input
 */
function runWith([program = '', ...args], input = '') {
  const running = run(program, args, { timeout: makeMs, cwd: '/', maxBuffer: 16 * 1024 * 1024 })
  running.child.stdin?.on('error', () => undefined)
  running.child.stdin?.end(input)
  return running
}
