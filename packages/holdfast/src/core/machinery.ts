import type { Backend } from './backend.js'
import type { Keeper } from './keeper.js'
import type { ClientSettings } from './options.js'
import type { Releaser } from './releaser.js'
import type { Runtime } from './runtime.js'

/** What the wait loop works with; one set per client. */
export interface Machinery {
  readonly backend: Backend
  readonly runtime: Runtime
  readonly settings: ClientSettings
  readonly keeper: Keeper
  readonly releaser: Releaser
}
