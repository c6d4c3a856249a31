import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: { index: 'src/index.ts' },
  format: 'esm',
  platform: 'node',
  target: 'node20',
  dts: { sourcemap: false },
  sourcemap: false,
  clean: true,
  logLevel: 'warn',
  checks: { pluginTimings: false },
  hash: false,
  outExtensions: () => ({ js: '.js', dts: '.d.ts' }),
  // The service uses the built library, not its source: the path mapping in tsconfig must not apply here.
  deps: {
    neverBundle: [
      /^node:/,
      /^holdfast(\/|$)/,
      'holdfast-dashboard',
      'fastify',
      /^@fastify\//,
      /^typebox(\/|$)/,
    ],
  },
})
