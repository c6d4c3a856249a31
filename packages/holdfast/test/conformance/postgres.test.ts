import { openPostgres } from '../../src/backends/postgres/open.js'
import { describeSql } from './sql-stores.js'

await describeSql(
  'postgres',
  [
    { recipe: 'rows' },
    { recipe: 'rows', options: '&wake=poll' },
    { recipe: 'advisory' },
    { recipe: 'for-update' },
    { recipe: 'advisory-xact' },
  ],
  openPostgres,
)
