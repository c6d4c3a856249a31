import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: { main: 'src/main.ts' },
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
  // The benchmarks measure the built library, not its source: the path mapping in tsconfig must not apply here.
  // What they are compared with is not bundled either: everybody runs as their users have it.
  deps: { neverBundle: [/^[a-z@]/] },
})
