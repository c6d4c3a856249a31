import type { ZooKeeper } from 'holdfast/zookeeper'
import type { LabWorld } from '../../lock.js'
import { zookeeperClient } from './client.js'
import { SequentialLine } from './sequential-line.js'

/** Looks for the node of a try that was not answered by the mark in its name, and asks nothing else of it. */
export class FoundAgain extends SequentialLine {
  static async open(world: LabWorld): Promise<FoundAgain> {
    return new FoundAgain(world, await zookeeperClient(world))
  }

  protected async join(client: ZooKeeper, folder: string, mark: string, isRetry: boolean): Promise<string> {
    if (isRetry) {
      const { names } = await client.children(folder)
      const found = names.find((name) => name.startsWith(`_c_${mark}`))
      // Whose session it belongs to stands in `ephemeralOwner`, and nobody looks.
      if (found !== undefined) return `${folder}/${found}`
    }
    const mode = 'ephemeral-sequential'
    return (await client.create(`${folder}/_c_${mark}-lock-`, Buffer.alloc(0), { mode })).path
  }
}
