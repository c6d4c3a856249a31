import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { sourceText } from './tools/source-text.mjs'
import { everyFile, quickFiles } from './tools/test/files.mjs'
import { LongestFirst } from './tools/test/sequencer.mjs'
import { testTags } from './tools/test/test-data.mjs'
import { ProgressReporter } from './tools/test/vitest-reporter.mjs'

const librarySource = fileURLToPath(new URL('./packages/holdfast/src', import.meta.url))
const tortureSource = fileURLToPath(new URL('./packages/torture/src', import.meta.url))
const serviceSource = fileURLToPath(new URL('./packages/service/src', import.meta.url))
const dashboardSource = fileURLToPath(new URL('./packages/dashboard/src', import.meta.url))

/** `npm run test:quick` sets this. */
const isQuick = process.env['HOLDFAST_SERVERS'] === 'none'

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
    include: isQuick ? quickFiles.include : everyFile,
    exclude: ['**/node_modules/**', ...(isQuick ? quickFiles.exclude : [])],
    // Files share the processes of the workers, because loading the library anew for each costs more than most tests.
    isolate: false,
    // Most files wait for servers and leases more than they compute, so six at a time fit on two cores.
    maxWorkers: isQuick ? 4 : 6,
    // How many cases of a file run concurrently where they allow it. They mostly wait for leases.
    maxConcurrency: 12,
    sequence: { sequencer: LongestFirst },
    globalSetup: isQuick ? [] : ['tools/test/shared-servers.mjs'],
    setupFiles: ['tools/test/measure-file.mjs'],
    reporters: [new ProgressReporter()],
    tags: testTags,
    // Tests wait for conditions with limits of their own. These limits only end what hangs.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // A test that passes only at the second try hides a fault.
    retry: 0,
  },
})
