export { ADD_GUARANTEES } from './backends/memcached/add.js'
export {
  type MemcachedOptions,
  type MemcachedRecipe,
  memcachedBackend,
  type RecipeOptions,
} from './backends/memcached/backend.js'
export { RECORD_GUARANTEES } from './backends/memcached/record.js'
export { type MemcachedRecordsOptions, memcachedRecords } from './backends/memcached/records.js'
