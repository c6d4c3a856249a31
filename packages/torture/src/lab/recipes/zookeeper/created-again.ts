import type { ZooKeeper } from 'holdfast/zookeeper'
import type { LabWorld } from '../../lock.js'
import { zookeeperClient } from './client.js'
import { SequentialLine } from './sequential-line.js'

/** Makes another node if the first try was not answered. */
export class CreatedAgain extends SequentialLine {
  static async open(world: LabWorld): Promise<CreatedAgain> {
    return new CreatedAgain(world, await zookeeperClient(world))
  }

  protected async join(client: ZooKeeper, folder: string): Promise<string> {
    return (await client.create(`${folder}/lock-`, Buffer.alloc(0), { mode: 'ephemeral-sequential' })).path
  }
}
