export { SQLITE_GUARANTEES, type SqliteOptions, sqliteBackend } from './backends/sqlite/backend.js'
export type { DriverName, SqliteDatabase, SqliteStatement, SqliteValue } from './backends/sqlite/client.js'
export type { Machine } from './backends/sqlite/clock.js'
export { type SqliteRecordsOptions, sqliteRecords } from './backends/sqlite/records.js'
