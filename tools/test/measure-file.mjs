// @ts-check
// Notes how much processor time each test file used: its own, and that of the child processes that ended while it ran.
import { appendFileSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect } from 'vitest'

const file = process.env['HOLDFAST_TEST_CPU']

/** The processor time of this process and of its children that have ended, in hundredths of a second. Only on Linux. */
function ticks() {
  const text = readFileSync('/proc/self/stat', 'latin1')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  // The fields utime, stime, cutime and cstime of proc(5).
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15).map(Number)
  return { own: user + system, children: childUser + childSystem }
}

if (file !== undefined) {
  const atLoad = ticks()
  let before = atLoad
  beforeAll(() => {
    before = ticks()
  })
  // The first hook that is registered is the last one that runs.
  afterAll(() => {
    const after = ticks()
    const line = {
      path: expect.getState().testPath,
      load: before.own - atLoad.own,
      own: after.own - before.own,
      children: after.children - atLoad.children,
    }
    appendFileSync(file, `${JSON.stringify(line)}\n`)
  })
}
