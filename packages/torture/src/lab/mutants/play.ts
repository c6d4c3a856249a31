/** Plays a trial with one build of the library, and judges what was seen. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TcpProxy } from 'holdfast-servers'
import { checkHistory } from '../../check/check.js'
import type { Verdict } from '../../check/verdict.js'
import type { Actor } from '../actor-process.js'
import { orAborted, Scene } from '../scene.js'
import { timelineOf } from '../timeline.js'
import type { GuardName } from './guards.js'
import type { SharedServer } from './servers.js'
import type { Trial } from './trial.js'
import { TRIAL_NAME, type TrialSettings } from './trial-lock.js'

/** Nothing that works takes this long, on a busy machine either. */
const TRIAL_LIMIT_MS = 120_000

/** What is played: the schedule, where, and with what. */
export interface Setting {
  readonly trial: Trial
  readonly store: string
  readonly query: string
  /** Null where the trial starts its servers itself. */
  readonly server: SharedServer | null
  /** What the names at the store begin with. */
  readonly space: string
  /** The build of the library, as something to import. */
  readonly library: string
  readonly isMutant: boolean
}

export interface Played {
  readonly verdict: Verdict
  readonly timeline: readonly string[]
}

export interface PlayerOptions {
  readonly relay?: TcpProxy
  readonly renew?: boolean
  readonly extendMs?: number
  readonly guard?: GuardName
  readonly wallAheadMs?: number
  /** Of its own, for one who is to be killed, or whose clock is to be wrong. By default all are in one. */
  readonly ownProcess?: boolean
}

/** What a trial plays on. */
export class Play {
  readonly scene: Scene
  readonly #setting: Setting
  #url: string | null
  /** The options of the recipe, as they stand behind the question mark of the URL. */
  query: string

  constructor(scene: Scene, setting: Setting) {
    this.scene = scene
    this.#setting = setting
    this.#url = setting.server?.url ?? null
    this.query = setting.query
  }

  /** For a trial with servers of its own. */
  set url(url: string) {
    this.#url = url
  }

  /** What actors connect to, with the options of the recipe. */
  get url(): string {
    const { query } = this
    const { store, space } = this.#setting
    if (this.#url === null) throw new Error('The servers of the trial have not been started.')
    const isSql = store === 'postgres' || store === 'mariadb' || store === 'mysql'
    const options = [...(query === '' ? [] : [query]), ...(isSql ? [`tablePrefix=${space}_`] : [])]
    return options.length === 0 ? this.#url : `${this.#url}?${options.join('&')}`
  }

  /** A caller with a client of its own. */
  async actor(name: string, options: PlayerOptions = {}): Promise<Actor> {
    const {
      relay,
      renew = true,
      extendMs = null,
      guard = null,
      wallAheadMs = 0,
      ownProcess = false,
    } = options
    const { space } = this.#setting
    const settings: TrialSettings = { space, renew, extendMs, guard, wallAheadMs }
    return await this.scene.actor(name, {
      url: this.url,
      settings: { ...settings },
      ...(ownProcess ? {} : { process: 'all' }),
      ...(relay === undefined ? {} : { relay }),
    })
  }

  /** One who looks, evicts, and makes the tables where the store needs some. To be made first. */
  async operator(): Promise<Actor> {
    const operator = await this.actor('operator')
    await operator.act('migrate')
    return operator
  }

  async relay(): Promise<TcpProxy> {
    const port = this.#setting.server?.port ?? null
    if (port === null) throw new Error(`There is nothing to relay to in ${this.#setting.store}.`)
    return await this.scene.relay(port)
  }

  /** Waits until it is so, but not for longer than that; whether it is then so. */
  async within(ms: number, came: () => boolean | Promise<boolean>): Promise<boolean> {
    const end = performance.now() + ms
    while (!(await came())) {
      if (performance.now() >= end) return false
      await this.scene.sleep(100)
    }
    return true
  }
}

export async function play(setting: Setting, signal: AbortSignal): Promise<Played> {
  const { trial, store, isMutant, library } = setting
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-mutant-'))
  const limit = AbortSignal.timeout(TRIAL_LIMIT_MS)
  const playable = { ...trial, name: TRIAL_NAME, stores: [store] as const }
  const scene = new Scene(playable, isMutant ? 'broken' : 'ours', folder, AbortSignal.any([signal, limit]))
  scene.library = library
  try {
    await orAborted(trial.run(new Play(scene, setting)), scene.signal)
    await scene.dispose()
    const history = await scene.history()
    return { verdict: checkHistory(history), timeline: timelineOf(history, scene.remarks) }
  } finally {
    await scene.dispose()
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }
}
