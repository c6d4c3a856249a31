import { openMysql } from '../../src/backends/mysql/open.js'
import { describeSql } from './sql-stores.js'

await describeSql(
  'mariadb',
  [{ recipe: 'rows' }, { recipe: 'get-lock' }, { recipe: 'for-update' }],
  openMysql,
)
