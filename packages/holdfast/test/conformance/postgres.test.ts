import { openPostgres } from '../../src/backends/postgres/open.js'
import { OTHER_WAKE_UP } from './skipped-themes.js'
import { describeSql } from './sql-stores.js'

await describeSql(
  'postgres',
  [
    { recipe: 'rows' },
    { recipe: 'rows', options: '&wake=poll', skip: OTHER_WAKE_UP },
    { recipe: 'advisory' },
    { recipe: 'for-update' },
    { recipe: 'advisory-xact' },
  ],
  openPostgres,
)
