import { defineConfig } from 'tsdown'
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
  'optimistic',
  'fencing',
  'testing',
]

export default defineConfig({
  entry: Object.fromEntries(entries.map((name) => [name, `src/${name}.ts`])),
  format: ['esm', 'cjs'],
  platform: 'node',
  target: 'node20',
  dts: { sourcemap: false },
  sourcemap: false,
  minify: false,
  clean: true,
  logLevel: 'warn',
  plugins: [sourceText()],
  checks: { pluginTimings: false },
  // The built files mirror the source, so that stack traces name a file that a reader can find.
  unbundle: true,
  // The package is ESM by default, so ESM files end in .js and CommonJS files in .cjs.
  outExtensions: ({ format }) =>
    format === 'cjs' ? { js: '.cjs', dts: '.d.cts' } : { js: '.js', dts: '.d.ts' },
  // Drivers are optional peers that are loaded lazily from the user's own node_modules.
  deps: {
    neverBundle: [/^node:/, 'libsql', 'better-sqlite3', 'ioredis', 'redis', 'pg', 'mysql2', '@grpc/grpc-js'],
  },
  // A dynamic import of a driver stays one in CommonJS too, so that a driver which is ESM can be loaded from both.
  outputOptions: { dynamicImportInCjs: true },
})
