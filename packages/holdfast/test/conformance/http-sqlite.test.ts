import { describeService } from './http-service.js'

await describeService('sqlite')
