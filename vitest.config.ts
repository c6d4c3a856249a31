import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { sourceText } from './tools/source-text.mjs'

const everything = ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts']
/** What measures how late this machine is must not have to share it. */
const alone = ['packages/torture/test/crowd.test.ts', 'packages/torture/test/check/speed.test.ts']

const librarySource = fileURLToPath(new URL('./packages/holdfast/src', import.meta.url))
const tortureSource = fileURLToPath(new URL('./packages/torture/src', import.meta.url))
const serviceSource = fileURLToPath(new URL('./packages/service/src', import.meta.url))
const dashboardSource = fileURLToPath(new URL('./packages/dashboard/src', import.meta.url))

export default defineConfig({
  plugins: [sourceText()],
  resolve: {
    // Tests run against the source of the library, so that a failure points at the line that caused it.
    alias: [
      { find: /^holdfast$/, replacement: `${librarySource}/index.ts` },
      { find: /^holdfast-torture$/, replacement: `${tortureSource}/index.ts` },
      { find: /^holdfast-service$/, replacement: `${serviceSource}/index.ts` },
      { find: /^holdfast-dashboard$/, replacement: `${dashboardSource}/index.ts` },
      { find: /^holdfast\/([a-z-]+)$/, replacement: `${librarySource}/$1.ts` },
    ],
  },
  test: {
    pool: 'forks',
    projects: [
      {
        extends: true,
        test: {
          name: 'together',
          include: everything,
          exclude: [...alone, '**/node_modules/**'],
          // They wait for servers and timers far more than they compute, so four files at a time fit on two cores.
          maxWorkers: 4,
          sequence: { groupOrder: 0 },
        },
      },
      { extends: true, test: { name: 'alone', include: alone, maxWorkers: 1, sequence: { groupOrder: 1 } } },
    ],
    reporters: ['default'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // A test that passes only at the second try hides a fault. `tools/test.mjs` looks again, alone, and says so.
    retry: 0,
  },
})
