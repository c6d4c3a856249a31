/** What the children of a folder say about the line in it. */

import type { HolderNote } from '../../core/backend.js'
import { LIMIT_MAX } from '../../core/line.js'
import type { ViewedNode } from '../sessions/nodes.js'
import { readRecord } from '../sessions/record.js'
import { wallMs } from '../shared/clock.js'
import { NOBODY_KNOWN } from '../shared/who.js'
import { hasCode, unlessMissing } from './errors.js'
import { inOrder, readNode, refOfNode, type ZookeeperNode } from './layout.js'
import type { Stat, ZooKeeper } from './wire/zookeeper.js'

/** Those of the children that take part in the line, in the order in which they came. */
export async function ordered(
  client: ZooKeeper,
  path: string,
  names: readonly string[],
): Promise<readonly ZookeeperNode[]> {
  const nodes = names.flatMap((name) => readNode(name) ?? [])
  const sorted = inOrder(nodes)
  if (sorted !== null) return sorted
  // The counter of the folder went beyond what it can hold. When each node was made is known all the same.
  const stats = await Promise.all(nodes.map(({ key }) => client.exists(`${path}/${key}`)))
  const dated = nodes.flatMap((node, index) => {
    const stat = stats[index]
    return stat ? [{ node, czxid: stat.czxid }] : []
  })
  return dated.sort((a, b) => (a.czxid < b.czxid ? -1 : 1)).map(({ node }) => node)
}

/** A writer that became a reader keeps its place and its name; only what stands in its node says so. */
export async function withLightened(
  client: ZooKeeper,
  path: string,
  line: readonly ZookeeperNode[],
): Promise<readonly ZookeeperNode[]> {
  const index = line.findIndex(({ weight }) => weight === LIMIT_MAX)
  const writer = line[index]
  if (writer === undefined) return line
  const found = await readable(client, `${path}/${writer.key}`)
  if (found === null || readRecord(found.data).weight !== 1) return line
  return await withLightened(client, path, line.with(index, { ...writer, weight: 1 }))
}

/** What stands in a node; null where there is none, or where its access list keeps it to others. */
export async function readable(
  client: ZooKeeper,
  path: string,
): Promise<{ readonly data: Buffer; readonly stat: Stat } | null> {
  try {
    return await client.getData(path)
  } catch (error) {
    if (hasCode(error, 'NO_NODE') || hasCode(error, 'NO_AUTH')) return null
    throw error
  }
}

/** The whole line, for people. */
export async function viewOf(client: ZooKeeper, path: string): Promise<readonly ViewedNode[]> {
  await client.sync(path)
  const names = (await unlessMissing(client.children(path)))?.names ?? []
  const nodes = await ordered(client, path, names)
  const read = await Promise.all(nodes.map(({ key }) => unlessMissing(client.getData(`${path}/${key}`))))
  return nodes.flatMap((node, index) => {
    const found = read[index]
    if (!found) return []
    const { owner, note } = whoIn(found.data) ?? NOBODY_KNOWN
    const ageMs = Math.max(0, wallMs() - Number(found.stat.ctime))
    const view = { ref: refOfNode(node.key), owner, note, fence: found.stat.czxid, ageMs, remainingMs: null }
    const weight = Math.min(node.weight, readRecord(found.data).weight ?? node.weight)
    return [{ ...node, weight, view }]
  })
}

/** Curator writes the address of its machine unless it is told otherwise. */
const ADDRESS = /^[0-9a-fA-F.:]{3,45}$/

export function whoIn(data: Buffer): HolderNote | null {
  const { who } = readRecord(data)
  const text = data.length <= 45 ? data.toString('latin1') : ''
  if (who !== null || !ADDRESS.test(text)) return who
  return { owner: { host: text, pid: 0, client: 'unknown' }, note: null }
}
