// @module-tag effects
import { it } from 'vitest'
import { isDeep } from '../../../../test/support/depth.js'
import { describeProcesses } from './processes/suite.js'

// The code is that of MySQL, whose processes run in `npm test`.
if (isDeep) await describeProcesses('mariadb', (url) => `${url}?max=4`)
else it.skip('processes over mariadb (skipped: `npm run test:deep` runs it)')
