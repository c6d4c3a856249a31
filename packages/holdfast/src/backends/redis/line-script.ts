/** The script of the line, put together from its two files. */

import { source as short } from './line.lua'
import { source as long } from './long-line.lua'

/** The place in `line.lua` where `long-line.lua` belongs. */
const INCLUDE = '-- @include long-line.lua\n'

export const source = short.replace(INCLUDE, () => long)
