export { type AdvisoryNames, advisoryKey } from './backends/postgres/advisory.js'
export {
  type PostgresOptions,
  type PostgresRecipe,
  type PostgresRecipeOptions,
  postgresBackend,
} from './backends/postgres/backend.js'
export type { PgClient, PgNotification, PgPool, PgQuery, PgResult } from './backends/postgres/client.js'
export { type PostgresRecordsOptions, postgresRecords } from './backends/postgres/records.js'
export type { Isolation } from './backends/sql/own-transaction.js'
export { type PostgresTransactionsOptions, postgresTransactions } from './transactions/postgres.js'
export type { TransactionOptions, Transactions } from './transactions/transactions.js'
