import type { RecordStore } from '../../core/records.js'
import { accessOf, parseConsulUrl, recipeOptionsOf } from './address.js'
import { checkRecipe } from './backend.js'
import { ConsulClient } from './client.js'
import { recordsOver } from './records.js'

/** The records that a URL leads to, over a client that ends with them. */
export async function openConsulRecords(url: string): Promise<RecordStore> {
  const address = parseConsulUrl(url)
  const options = recipeOptionsOf(address)
  checkRecipe(options)
  return recordsOver(new ConsulClient(await accessOf(address)), options)
}
