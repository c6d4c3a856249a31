import { openMemcached } from '../../src/backends/memcached/open.js'
import { describeStore, type Variant } from './stores.js'

const variants: readonly Variant[] = ['record', 'add'].map((recipe) => ({
  recipe,
  urlFor: (url, tag) => `${url}?recipe=${recipe}&prefix=${tag}:`,
}))

await describeStore('memcached', variants, openMemcached)
