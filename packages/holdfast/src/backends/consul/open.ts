/** Makes a client of its own from a URL. */

import type { Backend } from '../../core/backend.js'
import { accessOf, parseConsulUrl, recipeOptionsOf } from './address.js'
import { backendOver } from './backend.js'
import { ConsulClient } from './client.js'

/** The backend that a URL asks for, over a client that ends with it. */
export async function openConsul(url: string): Promise<Backend> {
  const address = parseConsulUrl(url)
  const options = recipeOptionsOf(address)
  return backendOver(new ConsulClient(await accessOf(address)), options)
}
