/**
 * The parts that the URLs of all servers have in common. Nothing of a URL but the name of an option is ever repeated in a
 * message, because it may carry a password.
 */

import { InvalidInputError } from './errors.js'

export interface HostAndPort {
  readonly host: string
  readonly port: number
}

export interface Credentials {
  readonly username: string | undefined
  readonly password: string | undefined
}

export interface UrlParts {
  readonly scheme: string
  readonly credentials: Credentials
  readonly authority: string
  readonly path: string
  readonly options: ReadonlyMap<string, string>
}

/** Takes a URL of the form `scheme://user:password@hosts/path?options` apart; null where it is not of that form. */
export function splitUrl(url: string): UrlParts | null {
  const parts = /^([a-z+]+):\/\/(?:([^@/?#]*)@)?([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/i.exec(url)
  if (parts === null) return null
  const [, scheme = '', credentials, authority = '', path = '', query = ''] = parts
  return {
    scheme: scheme.toLowerCase(),
    credentials: credentialsOf(credentials),
    authority,
    path,
    options: optionsOf(query),
  }
}

/** A name or a number with an optional port; an IPv6 address stands in brackets. */
export function hostOf(text: string, defaultPort: number): HostAndPort {
  const parts = /^(?:\[([0-9a-f:.]+)\]|([^@:[\]\s]*))(?::(\d{1,5}))?$/i.exec(text)
  const port = parts?.[3] === undefined ? defaultPort : Number(parts[3])
  if (parts === null || port < 1 || port > 65_535) {
    throw new InvalidInputError(
      'url',
      `hosts like \`name:${defaultPort}\` with commas between them`,
      text.length,
    )
  }
  return { host: parts[1] ?? (decoded(parts[2] ?? '') || 'localhost'), port }
}

function credentialsOf(text: string | undefined): Credentials {
  if (text === undefined || text === '') return { username: undefined, password: undefined }
  const colon = text.indexOf(':')
  const username = decoded(colon < 0 ? text : text.slice(0, colon))
  const password = colon < 0 ? undefined : decoded(text.slice(colon + 1))
  return { username: username === '' ? undefined : username, password }
}

function optionsOf(query: string): ReadonlyMap<string, string> {
  const options = new Map<string, string>()
  for (const pair of query.split('&')) {
    if (pair === '') continue
    const equals = pair.indexOf('=')
    const name = decoded(equals < 0 ? pair : pair.slice(0, equals))
    if (options.has(name)) throw new InvalidInputError('url', 'with each option once', shownOption(name))
    options.set(name, equals < 0 ? '' : decoded(pair.slice(equals + 1)))
  }
  return options
}

/** What is written like an option is shown; anything else may be the rest of a password that was not escaped. */
export function shownOption(name: string): string | number {
  return /^[a-z]{1,20}$/i.test(name) ? name : name.length
}

export function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new InvalidInputError(
      'url',
      'a text whose percent signs are escapes (%25 for a plain one)',
      text.length,
    )
  }
}
