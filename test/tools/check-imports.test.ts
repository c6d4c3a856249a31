import { describe, expect, it } from 'vitest'
import { checkImports } from '../../tools/check-imports.mjs'
import { withRepository } from './planted-repository.js'

const manifest = JSON.stringify({
  exports: { '.': './dist/index.js', './memory': './dist/memory.js' },
  peerDependencies: { libsql: '^0.5.0' },
})

/** Checks a repository that has only one source file, and returns `line: text` of each fault. */
function faultsOf(path: string, text: string): string[] {
  const files = { 'packages/holdfast/package.json': manifest, [path]: text }
  return withRepository(files, checkImports).map((fault) => `${fault.file}:${fault.line}: ${fault.text}`)
}

const src = 'packages/holdfast/src'

describe('check-imports catches', () => {
  it.each([
    ['core → client', `${src}/core/line.ts`, `import { a } from '../client/a.js'`],
    ['core → a built-in module', `${src}/core/line.ts`, `import { readFile } from 'node:fs'`],
    ['core → an entry', `${src}/core/line.ts`, `import { a } from '../index.js'`],
    ['a type only', `${src}/core/line.ts`, `import type { A } from '../client/a.js'`],
    ['an import type', `${src}/core/line.ts`, `export type A = import('../client/a.js').A`],
    ['a re-export', `${src}/core/line.ts`, `export * from '../primitives/mutex.js'`],
    ['a dynamic import', `${src}/client/a.ts`, `export const a = () => import('../connect/a.js')`],
    [
      'backend → other backend',
      `${src}/backends/sqlite/backend.ts`,
      `import { a } from '../memory/backend.js'`,
    ],
    [
      'backend → primitives',
      `${src}/backends/memory/backend.ts`,
      `import { a } from '../../primitives/mutex.js'`,
    ],
    ['primitives → client', `${src}/primitives/mutex.ts`, `import { a } from '../client/a.js'`],
    ['connect → testing', `${src}/connect/a.ts`, `import { a } from '../testing/a.js'`],
    ['fencing → client', `${src}/fencing/a.ts`, `import { a } from '../client/a.js'`],
    ['testing → sqlite', `${src}/testing/a.ts`, `import { a } from '../backends/sqlite/backend.js'`],
    ['an unknown layer', `${src}/extra/a.ts`, `import { a } from '../core/a.js'`],
    ['library → command, by name', `${src}/index.ts`, `import { a } from 'holdfast-cli'`],
    ['library → command, by path', `${src}/index.ts`, `import { a } from '../../cli/src/main.js'`],
    ['library → a package it does not have', `${src}/sqlite.ts`, `import { a } from 'left-pad'`],
    [
      'command → library, by path',
      'packages/cli/src/main.ts',
      `import { a } from '../../holdfast/src/index.js'`,
    ],
    [
      'bench → library, by path',
      'bench/src/main.ts',
      `import { a } from '../../packages/holdfast/dist/index.js'`,
    ],
    ['example → a hidden subpath', 'examples/a.ts', `import { a } from 'holdfast/core/line'`],
  ])('%s', (_title, path, line) => {
    const faults = faultsOf(path, `// A first line.\n${line}\n`)
    expect(faults).toHaveLength(1)
    expect(faults[0]).toContain(`${path}:2: `)
  })
})

describe('check-imports lets pass', () => {
  it.each([
    [`${src}/core/line.ts`, `import { a } from './a.js'`],
    [
      `${src}/backends/sqlite/backend.ts`,
      `import { a } from '../shared/a.js'\nimport { b } from '../../core/b.js'`,
    ],
    [
      `${src}/backends/sqlite/client.ts`,
      `import { a } from './a.js'\nexport const b = () => import('libsql')`,
    ],
    [`${src}/client/a.ts`, `import { a } from '../primitives/mutex.js'\nimport { hostname } from 'node:os'`],
    [`${src}/connect/a.ts`, `export const a = () => import('../backends/sqlite/backend.js')`],
    [`${src}/testing/a.ts`, `import { a } from '../backends/memory/backend.js'`],
    [`${src}/index.ts`, `export * from './connect/connect.js'`],
    ['packages/cli/src/main.ts', `import { a } from 'holdfast'\nimport { b } from 'holdfast/memory'`],
    ['packages/torture/src/a.ts', `import { a } from './b.js'\nimport { c } from 'holdfast-servers'`],
  ])('%s', (path, text) => {
    expect(faultsOf(path, text)).toEqual([])
  })
})
