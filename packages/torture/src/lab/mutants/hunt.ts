/** Plants each fault in turn, plays its schedule with it and without it, and says what came of it. */

import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { requiredStores, StoreMissingError, stores } from 'holdfast-servers'
import { StoreNotHere } from '../scene.js'
import { bundleLibrary } from './bundle.js'
import type { RecipeMutant } from './mutant.js'
import { type Played, play } from './play.js'
import { type SharedServer, SharedServers } from './servers.js'

/** What came of one mutant. */
export interface Hunted {
  readonly mutant: RecipeMutant
  readonly kind: 'ran' | 'not run'
  /** What was found in the history of the mutant; why it was not run, or where it broke off. */
  readonly found: string
  readonly caught: boolean
  /** What was found in that of the library as it is. */
  readonly unmutated: string
  readonly passed: boolean
  readonly timelines: { readonly mutant: readonly string[]; readonly unmutated: readonly string[] }
}

type Outcome =
  | { readonly kind: 'played'; readonly played: Played }
  | { readonly kind: 'broke off'; readonly reason: string }
  | { readonly kind: 'not run'; readonly reason: string }

export interface HuntOptions {
  /** The folder that the packages are in, with their source. */
  readonly packages: string
  readonly atOnce: number
  readonly signal: AbortSignal
  readonly onResult?: (hunted: Hunted) => void
}

export class Hunt {
  readonly #options: HuntOptions
  readonly #folder: string
  readonly #servers = new SharedServers()
  /** What the library as it is makes of a schedule, which several mutants are compared with. */
  readonly #unmutated = new Map<string, Promise<Outcome>>()
  #library: Promise<string> | null = null
  #builds: Promise<unknown> = Promise.resolve()
  #plays = 0

  constructor(options: HuntOptions) {
    this.#options = options
    // Below the packages, so that the drivers are found, which the build leaves out.
    this.#folder = mkdtempSync(join(options.packages, 'torture', 'dist', 'mutants-'))
  }

  /** In the order of the mutants, whichever is done first. */
  async run(mutants: readonly RecipeMutant[]): Promise<readonly Hunted[]> {
    const { atOnce, onResult } = this.#options
    const results: Hunted[] = []
    // The servers that take longest to start are wanted first.
    const order = [...mutants.keys()].sort((a, b) => urgency(mutants[b]) - urgency(mutants[a]))
    const work = async (): Promise<void> => {
      for (let index = order.shift(); index !== undefined; index = order.shift()) {
        const mutant = mutants[index] as RecipeMutant
        const hunted = await this.#hunt(mutant)
        results[index] = hunted
        onResult?.(hunted)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, work))
    return results
  }

  async dispose(): Promise<void> {
    await this.#servers.dispose()
    await this.#builds.catch(() => {})
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #hunt(mutant: RecipeMutant): Promise<Hunted> {
    const library = await this.#build(mutant)
    const [planted, plain] = await Promise.all([
      this.#outcome(mutant, library, true),
      this.#outcomeWithout(mutant),
    ])
    const caught =
      planted.kind === 'played' &&
      planted.played.verdict.violations.some(
        ({ kind, admitted }) => kind === mutant.expects && admitted === undefined,
      )
    return {
      mutant,
      kind: planted.kind === 'not run' ? 'not run' : 'ran',
      found: foundIn(planted),
      caught,
      unmutated: foundIn(plain),
      passed:
        plain.kind === 'played' && plain.played.verdict.valid && plain.played.verdict.undecided.length === 0,
      timelines: { mutant: timelineIn(planted), unmutated: timelineIn(plain) },
    }
  }

  async #outcomeWithout(mutant: RecipeMutant): Promise<Outcome> {
    const { trial, store, query = '' } = mutant
    const key = [trial.name, store, query].join(' ')
    this.#library ??= this.#build(null)
    const playing =
      this.#unmutated.get(key) ?? this.#library.then((library) => this.#outcome(mutant, library, false))
    this.#unmutated.set(key, playing)
    return await playing
  }

  async #outcome(mutant: RecipeMutant, library: string, isMutant: boolean): Promise<Outcome> {
    const { trial, store, query = '' } = mutant
    this.#plays += 1
    const space = `m${this.#plays}`
    try {
      const server = await this.#serverOf(store)
      const setting = { trial, store, query, server, space, library, isMutant }
      return { kind: 'played', played: await play(setting, this.#options.signal) }
    } catch (error) {
      this.#options.signal.throwIfAborted()
      const reason = error instanceof Error ? error.message : String(error)
      if (!(error instanceof StoreNotHere)) return { kind: 'broke off', reason }
      const required = requiredStores(process.env['HOLDFAST_REQUIRE_STORES'], [...stores.keys()])
      if (required.has(store)) throw new StoreMissingError(store, reason)
      return { kind: 'not run', reason }
    }
  }

  async #serverOf(store: string): Promise<SharedServer | null> {
    return OWN_SERVERS.has(store) ? null : await this.#servers.of(store)
  }

  /** One after the other: each keeps both cores busy for a moment. */
  async #build(mutant: RecipeMutant | null): Promise<string> {
    const { packages } = this.#options
    const folder = mkdtempSync(join(this.#folder, 'library-'))
    const building = this.#builds.then(() => bundleLibrary(packages, mutant, folder))
    this.#builds = building.catch(() => {})
    return await building
  }
}

/** Their servers are killed, so each play has its own. */
const OWN_SERVERS: ReadonlySet<string> = new Set(['redis-masters'])

/** About how long it takes until there is anything to play on. */
function urgency(mutant: RecipeMutant | undefined): number {
  const order = ['redis-masters', 'zookeeper', 'mariadb', 'consul', 'postgres', 'etcd']
  const at = order.indexOf(mutant?.store ?? '')
  return at < 0 ? 0 : order.length - at
}

function foundIn(outcome: Outcome): string {
  if (outcome.kind === 'not run') return `not run: ${outcome.reason}`
  if (outcome.kind === 'broke off') return `broke off: ${outcome.reason}`
  const { violations, undecided } = outcome.played.verdict
  const kinds = [...new Set(violations.map(({ kind }) => kind))]
  if (kinds.length > 0) return kinds.join(', ')
  return undecided.length > 0 ? 'undecided' : 'nothing'
}

function timelineIn(outcome: Outcome): readonly string[] {
  return outcome.kind === 'played' ? outcome.played.timeline : []
}
