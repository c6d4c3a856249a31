export {
  type ZookeeperOptions,
  type ZookeeperRecipe,
  type ZookeeperRecipeOptions,
  zookeeperBackend,
} from './backends/zookeeper/backend.js'
export { type ZookeeperRecordsOptions, zookeeperRecords } from './backends/zookeeper/records.js'
export {
  type Acl,
  CREATOR_ACL,
  type CreateMode,
  type Credential,
  type MultiOperation,
  type MultiResult,
  OPEN_ACL,
  PERMISSION,
  type SessionKey,
  type SessionState,
  type Stat,
  type TlsSettings,
  type WatchListener,
  ZooKeeper,
  ZooKeeperError,
  type ZooKeeperErrorCode,
  type ZooKeeperOptions,
} from './backends/zookeeper/wire/zookeeper.js'
