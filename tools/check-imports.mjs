// @ts-check
// Checks that imports go one way: the command, the fault tests, the benchmarks and the examples use the library by its
// name only, and inside the library each layer imports only the layers below it.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { moduleSpecifiers, parse, report, sourceFilesBelow } from './lib/source-files.mjs'

/** @typedef {import('./lib/source-files.mjs').Fault} Fault */

/**
 * What each layer of the library may import besides its own folder. The layer of a backend is `backends/<name>`.
 * @type {Record<string, (target: string) => boolean>}
 */
const mayImport = {
  core: () => false,
  backends: (target) => ['core', 'backends/sql', 'backends/sessions', 'backends/shared'].includes(target),
  primitives: (target) => target === 'core',
  client: (target) => target === 'core' || target === 'primitives',
  connect: (target) => target !== 'testing',
  transactions: (target) => target !== 'testing' && target !== 'connect' && target !== 'fencing',
  tables: (target) => ['core', 'backends/postgres', 'backends/mysql', 'backends/sqlite'].includes(target),
  optimistic: (target) => ['core', 'tables', 'backends/shared'].includes(target),
  fencing: (target) => target === 'core' || target === 'tables',
  idempotency: (target) => target === 'core' || target === 'client',
  dedupe: (target) => ['core', 'client', 'tables', 'optimistic', 'idempotency'].includes(target),
  http: (target) => ['core', 'client', 'idempotency'].includes(target),
  observe: (target) => ['core', 'client', 'idempotency'].includes(target),
  browser: () => false,
  testing: (target) =>
    ['core', 'client', 'primitives', 'fencing', 'idempotency', 'backends/memory'].includes(target),
  entry: () => true,
}

/**
 * The core has no I/O, clock or randomness of its own, so these are the only built-in modules it may use.
 * `node:crypto` is for hashes; check-tidy refuses its random functions.
 */
const builtinsOfCore = new Set(['node:async_hooks', 'node:crypto'])

/** The packages that use the library, each by its package name only. */
const consumers = [
  'packages/cli',
  'packages/service',
  'packages/dashboard',
  'packages/torture',
  'bench',
  'examples',
]

/**
 * The layer of a file, from its path below `src`. A file directly in `src` is an entry.
 * @param {string} path
 */
function layerOf(path) {
  const parts = path.split(sep)
  if (parts.length === 1) return 'entry'
  return parts[0] === 'backends' && parts.length > 2
    ? `backends/${parts[1]}`
    : /** @type {string} */ (parts[0])
}

/**
 * Says what is wrong with one import inside the library, or returns null.
 * @param {{ src: string, file: string, specifier: string, packages: ReadonlySet<string> }} found
 * @returns {string | null}
 */
function faultInLibrary({ src, file, specifier, packages }) {
  const from = layerOf(relative(src, file))
  const rule = mayImport[/** @type {string} */ (from.split('/')[0])]
  if (rule === undefined) return `the folder '${from}' is no known layer: add it to tools/check-imports.mjs`
  if (specifier.startsWith('.')) {
    const target = relative(src, resolve(dirname(file), specifier))
    if (target.startsWith('..')) return `'${specifier}' leaves the source folder of the library`
    const to = layerOf(target)
    return to === from || rule(to) ? null : `${from} must not import ${to} ('${specifier}')`
  }
  if (specifier.startsWith('node:')) {
    const allowed = from !== 'core' || builtinsOfCore.has(specifier)
    return allowed ? null : `core must not import '${specifier}'`
  }
  const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
  return packages.has(name)
    ? null
    : `the library must not import '${specifier}': it has no such dependency or peer`
}

/**
 * Says what is wrong with one import of a package that uses the library, or returns null.
 * @param {{ library: string, file: string, specifier: string, subpaths: ReadonlySet<string> }} found
 * @returns {string | null}
 */
function faultInConsumer({ library, file, specifier, subpaths }) {
  if (specifier.startsWith('.') || specifier.startsWith('/')) {
    const target = resolve(dirname(file), specifier)
    const inside = target === library || target.startsWith(library + sep)
    return inside ? `'${specifier}' reaches into the library by path: import 'holdfast' by name` : null
  }
  if (!specifier.startsWith('holdfast/')) return null
  return subpaths.has(`.${specifier.slice('holdfast'.length)}`)
    ? null
    : `'${specifier}' is not in the exports map of the library`
}

/**
 * Checks a repository and returns what is wrong, in the order of the files.
 * @param {string} root
 * @returns {Fault[]}
 */
export function checkImports(root) {
  const library = join(root, 'packages/holdfast')
  const src = join(library, 'src')
  const manifestPath = join(library, 'package.json')
  const manifest = existsSync(manifestPath) ? JSON.parse(readFileSync(manifestPath, 'utf8')) : {}
  const packages = new Set(Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies }))
  const subpaths = new Set(Object.keys(manifest.exports ?? {}))

  /** @type {Fault[]} */
  const faults = []
  /**
   * @param {string} folder
   * @param {(file: string, specifier: string) => string | null} judge
   */
  const scan = (folder, judge) => {
    for (const file of sourceFilesBelow(folder)) {
      for (const { specifier, line } of moduleSpecifiers(parse(file, readFileSync(file, 'utf8')))) {
        const text = judge(file, specifier)
        if (text !== null) faults.push({ file: relative(root, file), line, text })
      }
    }
  }
  scan(src, (file, specifier) => faultInLibrary({ src, file, specifier, packages }))
  for (const consumer of consumers) {
    scan(join(root, consumer), (file, specifier) => faultInConsumer({ library, file, specifier, subpaths }))
  }
  return faults
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  report('Import direction', checkImports(resolve(import.meta.dirname, '..')))
}
