import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stores } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import { bundleLibrary } from '../../src/lab/mutants/bundle.js'
import { RECIPE_MUTANTS } from '../../src/lab/mutants/list/index.js'
import { plantIn } from '../../src/sim/bundle.js'

const packages = fileURLToPath(new URL('../../../', import.meta.url))

describe('the mutants of our recipes', () => {
  it.each(RECIPE_MUTANTS)('$name ($store) finds its text exactly once', (mutant) => {
    const source = readFileSync(join(packages, mutant.file), 'utf8')
    expect(plantIn(source, mutant)).not.toBe(source)
    expect(stores.has(mutant.store)).toBe(true)
  })

  it('refuses a mutant whose text has gone', () => {
    const [mutant] = RECIPE_MUTANTS
    const gone = { ...mutant, name: 'gone', file: 'x', find: 'what nobody wrote', replace: '' }
    expect(() => plantIn('a source', gone)).toThrow('0 times')
  })

  it('has names of their own for them', () => {
    const names = RECIPE_MUTANTS.map(({ name, store }) => `${name} (${store})`)
    expect(new Set(names).size).toBe(names.length)
  })

  it('has enough of them, on every kind of store and of every kind of fault', () => {
    expect(RECIPE_MUTANTS.length).toBeGreaterThanOrEqual(30)
    expect(new Set(RECIPE_MUTANTS.map(({ store }) => store)).size).toBeGreaterThanOrEqual(9)
    expect(new Set(RECIPE_MUTANTS.map(({ expects }) => expects)).size).toBeGreaterThanOrEqual(7)
  })

  it('plays schedules whose names tell them apart', () => {
    const trials = new Set(RECIPE_MUTANTS.map(({ trial }) => trial))
    expect(new Set([...trials].map(({ name }) => name)).size).toBe(trials.size)
  })
})

describe('a build of the library for a trial', () => {
  // Where the drivers are found from, and where nothing is kept.
  mkdirSync(join(packages, 'torture', 'dist'), { recursive: true })
  const folder = mkdtempSync(join(packages, 'torture', 'dist', 'mutants-test-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('has the locks and the guards, and the fault that was planted in it', async () => {
    const mutant = RECIPE_MUTANTS.find(({ name }) => name === 'gate: fences not compared')
    if (mutant === undefined) throw new Error('The mutant of the gate has gone.')
    const plain = await import(await bundleLibrary(packages, null, join(folder, 'plain')))
    const mutated = await import(await bundleLibrary(packages, mutant, join(folder, 'mutated')))
    expect(typeof plain.connect).toBe('function')
    const pass = ({ FenceGate }: typeof import('holdfast/fencing')): void => {
      const gate = new FenceGate()
      gate.pass('account', 2n)
      gate.pass('account', 1n)
    }
    expect(() => pass(plain)).toThrow('stale')
    expect(() => pass(mutated)).not.toThrow()
  })
})
