export { MemoryStore, memoryBackend, memoryStore, type StoreClock } from './backends/memory/backend.js'
