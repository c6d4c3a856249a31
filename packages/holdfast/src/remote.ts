export { type RemoteOptions, remoteBackend } from './backends/http/backend.js'
export { remoteRecords } from './backends/http/records.js'
