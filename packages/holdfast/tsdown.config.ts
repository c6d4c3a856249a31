import { join } from 'node:path'
import { defineConfig, type UserConfig } from 'tsdown'
import { writeEsmFacades } from '../../tools/esm-facades.mjs'
import { sourceText } from '../../tools/source-text.mjs'

/** One entry for each subpath of the exports map in package.json. */
const entries = [
  'index',
  'backend',
  'memory',
  'sqlite',
  'redis',
  'postgres',
  'mysql',
  'etcd',
  'consul',
  'zookeeper',
  'memcached',
  'remote',
  'optimistic',
  'http',
  'fencing',
  'idempotency',
  'dedupe',
  'service',
  'prometheus',
  'opentelemetry',
  'testing',
]

const common: UserConfig = {
  sourcemap: false,
  minify: false,
  logLevel: 'warn',
  checks: { pluginTimings: false },
  // The package is ESM by default, so ESM files end in .js and CommonJS files in .cjs.
  outExtensions: ({ format }) =>
    format === 'cjs' ? { js: '.cjs', dts: '.d.cts' } : { js: '.js', dts: '.d.ts' },
}

/**
 * Rolldown calls what it requires `require_NAME`, in the files that it writes and in bundles of CommonJS files. A bundle
 * of our files would mix up the two, so ours have other names.
 */
const otherNames = {
  name: 'other-names-than-require',
  renderChunk: (code: string) => code.replaceAll(/\brequire_(?=\w)/g, 'loaded_'),
}

/**
 * One implementation for both module systems, so that a process which uses both has one copy of it: see decision 0023.
 * It is CommonJS, because not every loader can require ES modules.
 */
const library: UserConfig = {
  ...common,
  format: 'cjs',
  entry: Object.fromEntries(entries.map((name) => [name, `src/${name}.ts`])),
  platform: 'node',
  target: 'node20',
  dts: { sourcemap: false },
  clean: true,
  plugins: [sourceText(), otherNames],
  // The built files mirror the source, so that stack traces name a file that a reader can find.
  unbundle: true,
  // Drivers are optional peers that are loaded lazily from the user's own node_modules.
  deps: {
    neverBundle: [
      /^node:/,
      'libsql',
      'better-sqlite3',
      'ioredis',
      'redis',
      'pg',
      'mysql2',
      '@grpc/grpc-js',
      '@opentelemetry/api',
    ],
  },
  // A dynamic import of a driver stays one in CommonJS too, so that a driver which is ESM can be loaded from both.
  outputOptions: { dynamicImportInCjs: true },
  hooks: { 'build:done': () => writeEsmFacades(join(import.meta.dirname, 'dist'), entries) },
}

/** What runs in a page knows the page's types, and is one file, so that it can also be served as it is. */
const browser: UserConfig = {
  ...common,
  format: ['esm', 'cjs'],
  entry: { browser: 'src/browser.ts' },
  platform: 'browser',
  target: 'es2022',
  tsconfig: 'src/browser/tsconfig.json',
  dts: { sourcemap: false },
  clean: false,
}

export default defineConfig([library, browser])
