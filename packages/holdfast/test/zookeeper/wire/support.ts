import { missingPrograms, requiredStores, stores } from 'holdfast-servers'
import { onTestFinished } from 'vitest'
import {
  type WatchListener,
  ZooKeeper,
  type ZooKeeperErrorCode,
  type ZooKeeperOptions,
} from '../../../src/backends/zookeeper/wire/zookeeper.js'

/** Why the tests of this folder that need a server are not run, if they are not. */
export const [missing] = missingPrograms(['java', 'zookeeper.jar'])
const required = requiredStores(process.env.HOLDFAST_REQUIRE_STORES, [...stores.keys()])
if (missing !== undefined && required.has('zookeeper'))
  throw new Error(`${missing} is required and not there.`)

export const NOTHING = Buffer.alloc(0)

/** A client that goes away with the test. */
export async function connected(options: ZooKeeperOptions): Promise<ZooKeeper> {
  const client = await ZooKeeper.connect(options)
  onTestFinished(() => client.abandon())
  return client
}

export async function disposed<T extends { dispose(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  const thing = await starting
  onTestFinished(() => thing.dispose())
  return thing
}

/** A watch that remembers what it was told. */
export function remembering(): { listener: WatchListener; seen: string[] } {
  const seen: string[] = []
  return { listener: ({ type, path }) => void seen.push(`${type} ${path}`), seen }
}

export async function codeOfFailure(
  attempt: Promise<unknown>,
): Promise<{ code: ZooKeeperErrorCode; wasSent: boolean }> {
  try {
    await attempt
  } catch (error) {
    const { code, wasSent } = error as { code: ZooKeeperErrorCode; wasSent: boolean }
    return { code, wasSent }
  }
  throw new Error('It did not fail.')
}

let count = 0
export function freshPath(): string {
  count += 1
  return `/test-${process.pid}-${count}`
}
