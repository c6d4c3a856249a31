/** The entry points of the library that the checks use, as one module: a build with a planted fault has the same shape. */

export * as holdfast from 'holdfast'
export * as dedupe from 'holdfast/dedupe'
export * as idempotency from 'holdfast/idempotency'
export * as mysql from 'holdfast/mysql'
export * as postgres from 'holdfast/postgres'
