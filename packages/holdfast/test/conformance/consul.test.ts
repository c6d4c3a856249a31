import { describeConsul } from './consul-stores.js'

await describeConsul('consul')
