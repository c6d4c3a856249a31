import { it } from 'vitest'
import { isDeep } from '../../../../test/support/depth.js'
import { describeService } from './http-service.js'

// `http-redis-instances.test.ts` runs the same cases, with instances that are killed.
if (isDeep) await describeService('redis')
else
  it.skip(
    'http over redis conforms (skipped: three instances over Redis run it; `npm run test:deep` runs one)',
  )
