/** One run: a service over a store, groups of tenants that send it sequences of requests beside each other, and a report. */

import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { within } from '../../../../test/support/wait.js'
import type { AuthRight } from '../../src/security/auth-entries.js'
import type { LogLine } from '../../src/security/log-line.js'
import type { createService as CreateService } from '../../src/service.js'
import { Random } from '../fuzz/random.js'
import { CLAIMS_MAX, TTL_MAX_MS, WAIT_MAX_MS } from './asks.js'
import { Checker } from './checker.js'
import { LockPlayer } from './lock-player.js'
import { LocksModel } from './locks-model.js'
import { LookPlayer } from './look-player.js'
import { RecordPlayer } from './record-player.js'
import { Report } from './report.js'
import { Wire } from './wire.js'
import { authOf, type Group, Marks, makeGroup, type Tenant } from './world.js'

export interface RunOptions {
  readonly createService: typeof CreateService
  readonly url: string
  readonly seed: number
  readonly requests: number
  readonly groups?: number
  /** The run ends as soon as there is a contradiction of one of these kinds. */
  readonly kinds?: readonly string[]
}

/** Small, so that sequences of a few hundred requests reach them. */
export const RUN_LIMITS = {
  claimsPerPrincipalMax: CLAIMS_MAX,
  waitersPerPrincipalMax: 4,
  waitersPerNameMax: 6,
  ttlMaxMs: TTL_MAX_MS,
  waitMaxMs: WAIT_MAX_MS,
  requestsPerSecond: 1_000_000,
}

/** The auth file, and when the service has read it. */
class AuthChanges {
  readonly path: string
  readonly lines: LogLine[] = []
  readonly #groups: readonly Group[]

  constructor(path: string, groups: readonly Group[]) {
    this.path = path
    this.#groups = groups
  }

  async write(): Promise<void> {
    await writeFile(`${this.path}.new`, JSON.stringify(authOf(this.#groups)), { mode: 0o600 })
    await rename(`${this.path}.new`, this.path)
  }

  /** Gives other rights to tenants. Until the service has read the file, both the old and the new ones can count. */
  async change(
    rightsOf: (tenant: Tenant) => readonly AuthRight[] | null,
    isOver: () => boolean,
  ): Promise<void> {
    const tenants = this.#groups.flatMap(({ tenants: all }) => all).filter(({ role }) => role === 'fickle')
    const changedAt = performance.now()
    for (const tenant of tenants) {
      tenant.rightsBefore = { rights: tenant.rights, changedAt }
      tenant.rights = rightsOf(tenant)
    }
    const seen = this.#timesRead()
    await this.write()
    while (this.#timesRead() === seen && !isOver()) await sleep(20)
    // Requests that were let in with the old rights may still be under way.
    if (!isOver()) await sleep(GRACE_MS)
    for (const tenant of tenants) tenant.rightsBefore = null
  }

  #timesRead(): number {
    return this.lines.filter((line) => JSON.stringify(line).includes('auth file changed')).length
  }
}

/** No request of a sequence takes this long, but on a machine that stalls. */
const GRACE_MS = 2_000

type Step = readonly [weight: number, play: () => Promise<void> | void]

class Sequence {
  readonly #steps: readonly Step[]
  readonly #total: number
  readonly #random: Random
  readonly locks: LockPlayer
  readonly looks: LookPlayer

  constructor(checker: Checker, random: Random, port: number, isOver: () => boolean) {
    const model = new LocksModel(RUN_LIMITS)
    const locks = new LockPlayer(checker, model, random, isOver)
    const looks = new LookPlayer(checker, model, random, port)
    const records = new RecordPlayer(checker, random)
    this.locks = locks
    this.looks = looks
    this.#random = random
    this.#steps = [
      [30, () => locks.acquire()],
      [13, () => locks.again()],
      [2, () => locks.upgrade()],
      [0.15, () => locks.crowd(() => looks.list('reader'))],
      [0.6, () => locks.hijack()],
      [7, () => locks.wait(false)],
      [3, () => locks.wait(true)],
      [8, () => locks.renew()],
      [2, () => locks.renewAll()],
      [15, () => locks.release()],
      [2, () => locks.break()],
      [5, () => looks.inspect()],
      [2, () => looks.list()],
      [2, () => looks.other()],
      [1, () => looks.listen()],
      [9, () => records.play()],
      [0.5, () => sleep(random.between(20, 150))],
    ]
    this.#total = this.#steps.reduce((sum, [weight]) => sum + weight, 0)
  }

  /** What every run does, however short it is. */
  async begin(): Promise<void> {
    for (const role of ['narrow', 'user', 'fickle', 'reader'] as const) await this.looks.listen(role)
    await this.locks.upgrade()
    await this.locks.hijack()
    await this.locks.crowd(() => this.looks.list('reader'))
  }

  async step(): Promise<void> {
    let at = this.#random.next() * this.#total
    for (const [weight, play] of this.#steps) {
      at -= weight
      if (at < 0) return await play()
    }
  }
}

/** Runs sequences until enough requests were answered. */
export async function runSequences(options: RunOptions): Promise<Report> {
  const { createService, url, seed, requests, groups: count = 3, kinds = [] } = options
  const marks = new Marks()
  const groups = Array.from({ length: count }, (_, index) => makeGroup(index, marks))
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-tenants-'))
  const auth = new AuthChanges(join(folder, 'auth.json'), groups)
  await auth.write()
  const listen = { host: '127.0.0.1', port: 0 }
  const log = (line: LogLine): void => void auth.lines.push(line)
  const service = await createService({
    url,
    listen,
    auth: auth.path,
    limits: RUN_LIMITS,
    log: onlyNotices(log),
  })
  const port = Number(new URL(await service.listen()).port)
  const report = new Report()
  const wires: Wire[] = []
  let hasEnded = false
  const isOver = (): boolean => hasEnded || kinds.some((kind) => report.kinds.has(kind))
  try {
    const changing = changeRights(auth, report, requests, isOver)
    const playing = groups.map(async (group, index) => {
      const wire = new Wire(port)
      wires.push(wire)
      const sequence = new Sequence(
        new Checker(group, report, wire),
        new Random(seed * 1_000 + index),
        port,
        isOver,
      )
      await sequence.begin()
      while (report.requests < requests && !isOver()) await sequence.step()
      await sequence.locks.settled()
      sequence.looks.close()
    })
    await within('the sequences', Promise.all(playing), {
      limitMs: 3_600_000,
      state: () => report.describe(),
    })
    await changing
  } finally {
    hasEnded = true
    for (const wire of wires) wire.close()
    await service.close({ drainMs: 0 })
    await rm(folder, { recursive: true, force: true })
  }
  return report
}

function onlyNotices(log: (line: LogLine) => void): (line: LogLine) => void {
  return (line) => {
    if (line.kind !== 'request') log(line)
  }
}

/** Takes rights from some tokens, revokes them, and gives them back, at fixed parts of the run. */
async function changeRights(
  auth: AuthChanges,
  report: Report,
  requests: number,
  isOver: () => boolean,
): Promise<void> {
  const original = new Map<string, readonly AuthRight[] | null>()
  const changes: readonly ((tenant: Tenant) => readonly AuthRight[] | null)[] = [
    (tenant) => {
      original.set(tenant.name, tenant.rights)
      return (tenant.rights ?? []).filter(({ prefix }) => !prefix.endsWith('/s/'))
    },
    () => null,
    (tenant) => original.get(tenant.name) ?? null,
  ]
  for (const [index, rightsOf] of changes.entries()) {
    const from = (requests * (index + 1)) / 4
    while (report.requests < from && !isOver()) await sleep(10)
    if (isOver()) return
    await auth.change(rightsOf, isOver)
  }
}
