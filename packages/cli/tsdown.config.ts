import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: { main: 'src/main.ts', 'demo-worker': 'src/demo-worker.ts' },
  format: 'esm',
  platform: 'node',
  target: 'node20',
  dts: false,
  sourcemap: false,
  clean: true,
  logLevel: 'warn',
  checks: { pluginTimings: false },
  hash: false,
  outExtensions: () => ({ js: '.js' }),
  // The command uses the built library, not its source: the path mapping in tsconfig must not apply here.
  deps: {
    neverBundle: [/^node:/, /^holdfast(\/|$)/, 'holdfast-torture', 'holdfast-service', 'commander', 'libsql'],
  },
})
