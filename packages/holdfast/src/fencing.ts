export { FenceGate } from './fencing/gate.js'
