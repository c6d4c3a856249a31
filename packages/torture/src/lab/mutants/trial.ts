import type { Promises, ResourceNote } from '../../history/format.js'
import type { Play } from './play.js'

/** A schedule that the library passes, and that a build of it with a fault planted does not. */
export interface Trial {
  /** What happens in it, in a few words. */
  readonly name: string
  readonly resources?: Readonly<Record<string, ResourceNote>>
  readonly promises?: Promises
  /** Records by what its actors do; it judges nothing. */
  readonly run: (play: Play) => Promise<void>
}
