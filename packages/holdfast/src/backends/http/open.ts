/** Makes a client of its own from a URL. */

import type { Backend } from '../../core/backend.js'
import { accessOf, parseServiceUrl } from './address.js'
import { backendOver } from './backend.js'
import { ServiceClient } from './client.js'

/** The backend that a URL leads to, over a client that ends with it. It has asked for the guarantees when it is there. */
export async function openRemote(url: string): Promise<Backend> {
  return await backendOver(new ServiceClient(await accessOf(parseServiceUrl(url))))
}
