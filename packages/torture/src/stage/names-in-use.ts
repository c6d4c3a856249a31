/** What is left, asked of the store by Holdfast itself. */

import { connect } from 'holdfast'
import type { Leftover } from './stage.js'

/** The names that somebody still holds or waits for, as the store itself says. */
export async function namesInUse(url: string, prefix = ''): Promise<readonly Leftover[]> {
  const locks = await connect(url)
  try {
    const found: Leftover[] = []
    for await (const { resource } of locks.list(prefix)) found.push({ what: 'claim', name: resource })
    return found
  } finally {
    await locks.close()
  }
}
