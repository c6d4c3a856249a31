/** Runs the benchmarks and prints tables. What can be asked for is in `arguments.ts`. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { helpText, parseWish, type Wish } from './arguments.js'
import type { Chart } from './chart.js'
import { consulGroups } from './consul/groups.js'
import { embeddedGroups } from './embedded/groups.js'
import { contendAsWorker, WORKER_FLAG } from './embedded/processes.js'
import { etcdGroups } from './etcd/groups.js'
import type { Findings, Group } from './group.js'
import { httpGroups } from './http/groups.js'
import { memcachedGroups } from './memcached/groups.js'
import { Progress } from './progress.js'
import { queueGroups } from './queue/groups.js'
import { redisGroups } from './redis/groups.js'
import { REDIS_WORKER_FLAG, workOnRedis } from './redis/worker.js'
import { asMarkdown, makeReport, missesBar, type Row, type Section, save } from './report.js'
import { serviceGroups } from './service/groups.js'
import { hostServer, SERVICE_HOST_FLAG } from './service/host.js'
import { sqlGroups } from './sql/groups.js'
import { SQL_WORKER_FLAG, workOnSql } from './sql/worker.js'
import { zookeeperGroups } from './zookeeper/groups.js'
import { workOnZookeeper, ZOOKEEPER_WORKER_FLAG } from './zookeeper/sides.js'

const groups: readonly Group[] = [
  ...embeddedGroups,
  ...redisGroups,
  ...sqlGroups,
  ...memcachedGroups,
  ...etcdGroups,
  ...consulGroups,
  ...zookeeperGroups,
  ...httpGroups,
  ...serviceGroups,
  ...queueGroups,
]

async function main(args: readonly string[]): Promise<void> {
  if (args[0] === WORKER_FLAG) return contendAsWorker(args[1] as string, Number(args[2]))
  if (args[0] === REDIS_WORKER_FLAG) return workOnRedis(Number(args[1]))
  if (args[0] === SQL_WORKER_FLAG) return workOnSql(args[1] as string)
  if (args[0] === ZOOKEEPER_WORKER_FLAG) return workOnZookeeper(args[1] as string)
  if (args[0] === SERVICE_HOST_FLAG) return hostServer()
  const wish = understand(args)
  if (wish === null) return
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-bench-'))
  try {
    const { sections, charts } = await runAll(wish, folder)
    const report = makeReport(sections, charts, wish.quick)
    console.log(asMarkdown(report))
    console.log(`Written to ${relative(process.cwd(), await save(report))}`)
    if (wish.assert && sections.some(({ rows }) => rows.some(missesBar))) process.exitCode = 1
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** null where there is nothing to run: only help was wanted, or the arguments make no sense. */
function understand(args: readonly string[]): Wish | null {
  try {
    const wish = parseWish(args, groups)
    if (!wish.help) return wish
    console.log(helpText(groups))
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error))
    process.exitCode = 2
  }
  return null
}

interface Found {
  readonly sections: readonly Section[]
  readonly charts: readonly Chart[]
}

async function runAll({ groups: wanted, quick, minutes }: Wish, folder: string): Promise<Found> {
  const progress = new Progress()
  const sections = new Map<string, Row[]>()
  const charts: Chart[] = []
  for (const [index, { name, run }] of wanted.entries()) {
    progress.start(`[${index + 1}/${wanted.length}] ${name}`)
    const found = await runOne(name, () => run({ quick, minutes, folder, say: (text) => progress.say(text) }))
    sections.set(found.title, [...(sections.get(found.title) ?? []), ...found.rows])
    charts.push(...(found.charts ?? []))
  }
  progress.done()
  return { sections: [...sections].map(([title, rows]) => ({ title, rows })), charts }
}

/** A group that fails must not take along what the others have found in many minutes, nor pass in silence. */
async function runOne(name: string, run: () => Promise<Findings>): Promise<Findings> {
  try {
    return await run()
  } catch (error) {
    console.error(error)
    process.exitCode = 1
    const value = error instanceof Error ? error.message : String(error)
    return { title: 'Failed', rows: [{ what: name, value }] }
  }
}

await main(process.argv.slice(2))
