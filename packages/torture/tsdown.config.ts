import { defineConfig } from 'tsdown'
import { sourceText } from '../../tools/source-text.mjs'

export default defineConfig({
  // The folders of src are kept below dist: dist/sim/main.js, dist/workers/<name>.js.
  entry: {
    index: 'src/index.ts',
    'lab/write-page': 'src/lab/write-page.ts',
    'lab/mutants': 'src/lab/mutants.ts',
    'sim/main': 'src/sim/main.ts',
    'sim/run': 'src/sim/run.ts',
    'sim/worker': 'src/sim/worker.ts',
    'suite/main': 'src/suite/main.ts',
    'suite/write-page': 'src/suite/write-page.ts',
    'surroundings/main': 'src/surroundings/main.ts',
    'surroundings/library': 'src/surroundings/library.ts',
    'workers/*': 'src/workers/*.ts',
  },
  format: 'esm',
  platform: 'node',
  target: 'node20',
  dts: false,
  sourcemap: false,
  clean: true,
  logLevel: 'warn',
  plugins: [sourceText()],
  checks: { pluginTimings: false },
  hash: false,
  outExtensions: () => ({ js: '.js' }),
  // The simulation runs the built library, not its source: the path mapping in tsconfig must not apply here.
  deps: {
    neverBundle: [
      /^node:/,
      'rolldown',
      /^holdfast(\/|$)/,
      'holdfast-servers',
      'ioredis',
      'pg',
      'mysql2',
      '@grpc/grpc-js',
      'libsql',
    ],
  },
})
