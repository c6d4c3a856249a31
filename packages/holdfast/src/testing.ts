export { SeededRandom, settle, VirtualRuntime, VirtualTime } from './testing/virtual-time.js'
