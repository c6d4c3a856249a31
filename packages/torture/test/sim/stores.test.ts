// @module-tag exclusion
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { plantIn } from '../../src/sim/bundle.js'
import { MUTANTS } from '../../src/sim/mutants/index.js'
import { STORE_TYPES } from '../../src/sim/stores/store.js'
import { World } from '../../src/sim/world.js'

const packages = fileURLToPath(new URL('../../../', import.meta.url))

describe('a simulated world', () => {
  it.each(STORE_TYPES)('with a %s store keeps every promise, and repeats itself', async (store) => {
    const once = await new World(11, { store }).run(1_500)
    const again = await new World(11, { store }).run(1_500)
    expect(once).toMatchObject({ store, violation: null })
    expect(once.grants).toBeGreaterThan(0)
    expect(again).toEqual(once)
  })
})

describe('the mutants of the simulator', () => {
  it.each(MUTANTS)('$name finds its text exactly once', (mutant) => {
    const source = readFileSync(join(packages, mutant.file), 'utf8')
    expect(plantIn(source, mutant)).not.toBe(source)
  })

  it('have names of their own', () => {
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length)
  })
})
