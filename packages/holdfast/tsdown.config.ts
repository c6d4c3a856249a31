import { defineConfig, type UserConfig } from 'tsdown'
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
  format: ['esm', 'cjs'],
  sourcemap: false,
  minify: false,
  logLevel: 'warn',
  checks: { pluginTimings: false },
  // The package is ESM by default, so ESM files end in .js and CommonJS files in .cjs.
  outExtensions: ({ format }) =>
    format === 'cjs' ? { js: '.cjs', dts: '.d.cts' } : { js: '.js', dts: '.d.ts' },
}

const library: UserConfig = {
  ...common,
  entry: Object.fromEntries(entries.map((name) => [name, `src/${name}.ts`])),
  platform: 'node',
  target: 'node20',
  dts: { sourcemap: false },
  clean: true,
  plugins: [sourceText()],
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
}

/** What runs in a page knows the page's types, and is one file, so that it can also be served as it is. */
const browser: UserConfig = {
  ...common,
  entry: { browser: 'src/browser.ts' },
  platform: 'browser',
  target: 'es2022',
  tsconfig: 'src/browser/tsconfig.json',
  dts: { sourcemap: false },
  clean: false,
}

export default defineConfig([library, browser])
