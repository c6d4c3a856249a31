export { type ConsulOptions, type ConsulRecipeOptions, consulBackend } from './backends/consul/backend.js'
export { consulRecords } from './backends/consul/records.js'
