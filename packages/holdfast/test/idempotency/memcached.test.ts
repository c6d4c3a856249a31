import { describeRun } from './contract/suite.js'

await describeRun('memcached')
