// @ts-check
// A browser for tests of pages. It is no store, but what is missing is told in the same way.
import { findChromium } from './locations.js'
import { StoreMissingError } from './policy.js'
import { missingReason } from './programs.js'

/** @typedef {{ readonly kind: 'ready', readonly path: string } | import('./store.js').StoreNotRun} BrowserOutcome */

/**
 * Where Chromium, or Chrome, is; null if there is none.
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {string | null}
 */
export function chromiumPath(env = process.env) {
  return findChromium(env) ?? null
}

/** What a test starts Chromium with: it runs as any user, asks nobody outside for anything, and draws without a screen. */
export const CHROMIUM_FLAGS = Object.freeze([
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
])

/**
 * Gives the browser, or says why it cannot be had. Throws if it is required, which it is where all stores are.
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {BrowserOutcome}
 */
export function browserFor(env = process.env) {
  const path = chromiumPath(env)
  if (path !== null) return { kind: 'ready', path }
  const reason = missingReason(['chromium'])
  if (requiresAll(env)) throw new StoreMissingError('chromium', reason)
  return { kind: 'not run', name: 'chromium', reason }
}

/** @param {NodeJS.ProcessEnv} env */
export function requiresAll(env) {
  return (env.HOLDFAST_REQUIRE_STORES ?? '').split(',').some((name) => name.trim() === 'all')
}
