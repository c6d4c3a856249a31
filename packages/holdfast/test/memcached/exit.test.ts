import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { execPath } from 'node:process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { isMissing, RECIPES, started, whyMissing } from './support.js'

const EXIT_MS = 120_000

describe.skipIf(isMissing)(titled('a process', whyMissing), () => {
  test.each(RECIPES)(
    'that has nothing more to do ends, though its connection is open (%s)',
    async (recipe) => {
      const server = await started()
      const script = fileURLToPath(new URL('./idle-child.mjs', import.meta.url))
      const child = spawn(execPath, [script, `${server.url}?recipe=${recipe}`], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const timer = setTimeout(() => child.kill('SIGKILL'), EXIT_MS)
      const [said, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
      clearTimeout(timer)
      expect([said, code]).toEqual(['done\n', 0])
    },
  )
})
