import { openMysql } from '../../src/backends/mysql/open.js'
import { OTHER_SERVER } from './skipped-themes.js'
import { describeSql } from './sql-stores.js'

await describeSql(
  'mariadb',
  ['rows', 'get-lock', 'for-update'].map((recipe) => ({ recipe, skip: OTHER_SERVER })),
  openMysql,
)
