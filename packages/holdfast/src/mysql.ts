export {
  type MysqlOptions,
  type MysqlRecipe,
  type MysqlRecipeOptions,
  mysqlBackend,
} from './backends/mysql/backend.js'
export type { MysqlConnection, MysqlPool, MysqlQuery } from './backends/mysql/client.js'
export { type LockNames, lockName } from './backends/mysql/get-lock.js'
export { type MysqlRecordsOptions, mysqlRecords } from './backends/mysql/records.js'
export type { Isolation } from './backends/sql/own-transaction.js'
export { type MysqlTransactionsOptions, mysqlTransactions } from './transactions/mysql.js'
export type { TransactionOptions, Transactions } from './transactions/transactions.js'
