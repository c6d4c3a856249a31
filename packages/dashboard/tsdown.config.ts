import { defineConfig } from 'tsdown'
import { sourceText } from '../../tools/source-text.mjs'

export default defineConfig({
  // The whole page is inside this one module, as text: a service that has it needs no folder of files beside it.
  entry: { index: 'src/index.ts' },
  format: 'esm',
  platform: 'node',
  target: 'node20',
  dts: { sourcemap: false },
  sourcemap: false,
  clean: true,
  logLevel: 'warn',
  plugins: [sourceText()],
  checks: { pluginTimings: false },
  hash: false,
  outExtensions: () => ({ js: '.js', dts: '.d.ts' }),
  deps: { neverBundle: [/^node:/] },
})
