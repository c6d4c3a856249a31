/** What every store needs that makes clients of its own from a URL. */

import { readFile } from 'node:fs/promises'
import { shownOption } from '../../core/address.js'
import { InvalidInputError, quote, UnsupportedError } from '../../core/errors.js'

/** Turns the text of an option into what the backend takes; the backend checks it. */
export type OptionReader = (text: string) => unknown

/** The options of a URL for the backend. A misspelt one would otherwise be ignored in silence; `own` are the opener's. */
export function optionsFrom(
  given: ReadonlyMap<string, string>,
  known: ReadonlyMap<string, OptionReader>,
  own: readonly string[],
): Record<string, unknown> {
  const options: Record<string, unknown> = {}
  for (const [name, text] of given) {
    const read = known.get(name)
    if (read !== undefined) options[name] = read(text)
    else if (!own.includes(name)) {
      throw new InvalidInputError(
        'url',
        `with no options but ${[...known.keys(), ...own].join(', ')}`,
        shownOption(name),
      )
    }
  }
  return options
}

/** `true` and `false` as they are; anything else is left to the backend to refuse. */
export function flag(text: string): unknown {
  return text === 'true' ? true : text === 'false' ? false : text
}

/** Loads an optional driver; null where it is not installed. */
export async function loadDriver(name: string, backend: string): Promise<unknown> {
  try {
    // The name is a variable, so that a bundler leaves the optional package where it is.
    return await import(/* webpackIgnore: true */ /* @vite-ignore */ name)
  } catch (error) {
    const code: unknown = error instanceof Error && 'code' in error ? error.code : null
    const isAbsent = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
    if (isAbsent && (error as Error).message.includes(`'${name.split('/')[0]}`)) return null
    throw new UnsupportedError(`The driver \`${name}\` is installed but does not load. Install it again.`, {
      backend,
      cause: error,
    })
  }
}

/** The certificate that the option `ca` names. */
export async function readCa(path: string, backend: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new UnsupportedError(
      `The certificate ${quote(path)} of the URL's option \`ca\` could not be read.`,
      { backend, cause },
    )
  }
}

/** The token that the options `token` or `tokenFile` give; the path of a file does not show in a list of processes. */
export async function tokenIn(options: ReadonlyMap<string, string>, backend: string): Promise<string | null> {
  const [token, path] = [options.get('token'), options.get('tokenFile')]
  if (token !== undefined && path !== undefined) {
    throw new InvalidInputError('token', 'left out beside `tokenFile`', typeof token)
  }
  if (path === undefined) return token === undefined ? null : checkToken(token)
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    throw new UnsupportedError(
      `The file ${quote(path)} of the URL's option \`tokenFile\` could not be read.`,
      { backend, cause },
    )
  }
  return checkToken(text.trim())
}

/** A token goes into a header, and must not begin another one. */
export function checkToken(token: unknown): string {
  if (typeof token !== 'string' || !/^[\x21-\x7e]{1,256}$/.test(token)) {
    throw new InvalidInputError('token', 'a text of visible characters', typeof token)
  }
  return token
}
