export { type ConsulOptions, type ConsulRecipeOptions, consulBackend } from './backends/consul/backend.js'
