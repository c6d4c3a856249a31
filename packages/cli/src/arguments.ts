/** Readers of option values. They throw Commander's own error, which then names the option. */

import { InvalidArgumentError, Option } from 'commander'
import { parseDuration } from './format/duration.js'

export function readDuration(text: string): number {
  const parsed = parseDuration(text)
  if (!parsed.ok) throw new InvalidArgumentError(parsed.problem)
  return parsed.ms
}

/** Infinity stands for as long as it takes: Commander takes a null for an option without a value. */
export function readWait(text: string): number {
  return text === 'forever' ? Number.POSITIVE_INFINITY : readDuration(text)
}

export function readWholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= min && value <= max)) {
      throw new InvalidArgumentError(`expected a whole number from ${min} to ${max}`)
    }
    return value
  }
}

export function urlOption(): Option {
  return new Option(
    '--url <url>',
    'the store, such as sqlite:/var/lib/app/locks.db (default: a file per user)',
  ).env('HOLDFAST_URL')
}
