// @ts-check
// Checks the built library as a user would get it: what the tarball holds, what the exports map says, and that both
// module systems can load it and get the same objects. The service and its page are checked for what their tarballs hold. Build all three first.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { rolldown } from 'rolldown'

const root = resolve(import.meta.dirname, '..')
const library = join(root, 'packages/holdfast')
const manifest = JSON.parse(readFileSync(join(library, 'package.json'), 'utf8'))

/** @type {string[]} */
const faults = []

/**
 * Every file that the exports map names.
 * @param {unknown} value
 * @returns {string[]}
 */
function exportTargets(value) {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(exportTargets) : []
}

/** @param {string[]} packed The paths in the tarball. */
function checkContents(packed) {
  const wanted = /^(dist\/.+\.(js|cjs|d\.ts|d\.cts)|package\.json|LICENSE|README\.md)$/
  for (const path of packed)
    if (!wanted.test(path)) faults.push(`The package holds ${path}, which it should not.`)
  for (const path of ['package.json', 'LICENSE', 'README.md']) {
    if (!packed.includes(path)) faults.push(`The package lacks ${path}.`)
  }
  const license = readFileSync(join(root, 'LICENSE'), 'utf8')
  if (readFileSync(join(library, 'LICENSE'), 'utf8') !== license) faults.push('The two LICENSE files differ.')
}

/** @param {string[]} packed The paths in the tarball. */
function checkExports(packed) {
  const targets = exportTargets(manifest.exports).map((path) => path.replace(/^\.\//, ''))
  for (const target of targets) {
    if (!packed.includes(target)) faults.push(`The exports map names ${target}, which is not in the package.`)
  }
  for (const file of readdirSync(join(library, 'src')).filter((name) => name.endsWith('.ts'))) {
    const name = file.slice(0, -'.ts'.length)
    const subpath = name === 'index' ? '.' : `./${name}`
    if (manifest.exports[subpath] === undefined)
      faults.push(`src/${file} is an entry that the exports map lacks.`)
  }
  const reached = reachableFrom(targets.filter((path) => packed.includes(path)))
  for (const path of packed.filter((name) => name.startsWith('dist/'))) {
    if (!reached.has(path)) faults.push(`No entry of the exports map leads to ${path}.`)
  }
}

/**
 * Follows the relative imports of the built files, declarations included.
 * @param {string[]} start
 */
function reachableFrom(start) {
  const reached = new Set(start)
  for (const path of reached) {
    if (!/\.(c?js|d\.c?ts)$/.test(path)) continue
    const text = readFileSync(join(library, path), 'utf8')
    for (const [, specifier] of text.matchAll(/(?:from|import|require)\s*\(?\s*["'](\.{1,2}\/[^"']+)["']/g)) {
      const target = join(dirname(path), specifier ?? '').replaceAll('\\', '/')
      const isDeclaration = /\.d\.c?ts$/.test(path)
      reached.add(isDeclaration ? target.replace(/\.(c?)js$/, '.d.$1ts') : target)
    }
  }
  return reached
}

/**
 * @param {string} title
 * @param {string[]} command
 */
function runTool(title, command) {
  const result = spawnSync('npx', ['--no-install', ...command], { cwd: root, encoding: 'utf8' })
  if (result.status !== 0) faults.push(`${title} found faults:\n${result.stdout}${result.stderr}`)
  else console.log(`${title}: no fault.`)
}

/**
 * Installs the tarball in an empty project and loads it by both module systems, which must give the same objects.
 * @param {string} folder
 * @param {string} tarball
 */
function checkLoading(folder, tarball) {
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  const install = [
    'install',
    '--prefix',
    folder,
    '--offline',
    '--no-audit',
    '--no-fund',
    '--ignore-scripts',
    tarball,
  ]
  execFileSync('npm', install, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  const subpaths = Object.keys(manifest.exports).filter((key) => key !== './package.json')
  const names = JSON.stringify(subpaths.map((key) => `holdfast${key.slice(1)}`))
  const verdict = `if (typeof loaded[0].connect !== 'function') throw new Error('connect is not a function')\n`
  const programs = {
    'load.mjs': `const loaded = []\nfor (const name of ${names}) loaded.push(await import(name))\n${verdict}`,
    'load.cjs': `const loaded = ${names}.map((name) => require(name))\n${verdict}`,
    'same.mjs': `import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
for (const name of ${names}) {
  const [imported, required] = [await import(name), require(name)]
  for (const key of new Set([...Object.keys(imported), ...Object.keys(required)])) {
    if (imported[key] !== required[key]) throw new Error(name + ' has two copies of ' + key)
  }
}
`,
  }
  for (const [file, text] of Object.entries(programs)) {
    writeFileSync(join(folder, file), text)
    const result = spawnSync(process.execPath, [file], { cwd: folder, encoding: 'utf8' })
    if (result.status !== 0) faults.push(`${file} cannot load the package:\n${result.stderr}`)
    else console.log(`${file}: no fault.`)
  }
}

/**
 * Bundles a program that uses the installed package, and runs the bundle.
 * @param {string} folder
 */
async function checkBundling(folder) {
  const use = `connect('memory:').then((locks) => locks.mutex('a').run(() => {}).then(() => locks.close()))`
  const programs = {
    'bundle.mjs': `import { connect } from 'holdfast'\nimport 'holdfast/redis'\n${use}\n`,
    'bundle.cjs': `const { connect } = require('holdfast')\nrequire('holdfast/redis')\n${use}\n`,
  }
  for (const [file, text] of Object.entries(programs)) {
    writeFileSync(join(folder, file), text)
    const bundle = await rolldown({ input: join(folder, file), platform: 'node', logLevel: 'silent' })
    const entryFileNames = `bundled-${file}`
    await bundle.write({ dir: folder, entryFileNames, format: file.endsWith('.cjs') ? 'cjs' : 'esm' })
    const result = spawnSync(process.execPath, [entryFileNames], { cwd: folder, encoding: 'utf8' })
    if (result.status !== 0) faults.push(`The bundle of ${file} does not run:\n${result.stderr}`)
    else console.log(`${entryFileNames}: no fault.`)
  }
}

/**
 * Checks a package that is a program's and no library: one module system, and everything that it names is there.
 * @param {string} name The folder below `packages`.
 */
function checkProgram(name) {
  const folder = join(root, 'packages', name)
  const own = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const pack = ['pack', '--json', '--dry-run', '--ignore-scripts']
  const [packed] = JSON.parse(execFileSync('npm', pack, { cwd: folder, encoding: 'utf8' }))
  const paths = /** @type {{ path: string }[]} */ (packed.files).map((file) => file.path)
  const wanted = /^(dist\/.+\.(js|d\.ts)|package\.json|LICENSE|README\.md)$/
  for (const path of paths)
    if (!wanted.test(path)) faults.push(`${own.name} holds ${path}, which it should not.`)
  const needed = [
    'LICENSE',
    'README.md',
    ...exportTargets(own.exports).map((path) => path.replace(/^\.\//, '')),
  ]
  for (const path of needed) if (!paths.includes(path)) faults.push(`${own.name} lacks ${path}.`)
  const license = readFileSync(join(root, 'LICENSE'), 'utf8')
  if (readFileSync(join(folder, 'LICENSE'), 'utf8') !== license)
    faults.push(`${own.name} has another LICENSE.`)
  console.log(
    `${own.name}: ${paths.length} files, ${packed.size} bytes packed, ${packed.unpackedSize} unpacked.`,
  )
}

if (!existsSync(join(library, 'dist'))) {
  console.error('packages/holdfast/dist is missing: build the library first.')
  process.exit(1)
}
const folder = mkdtempSync(join(tmpdir(), 'holdfast-package-'))
try {
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const [packed] = JSON.parse(execFileSync('npm', pack, { cwd: library, encoding: 'utf8' }))
  const paths = /** @type {{ path: string }[]} */ (packed.files).map((file) => file.path)
  const tarball = join(folder, packed.filename)
  console.log(
    `${packed.filename}: ${paths.length} files, ${packed.size} bytes packed, ${packed.unpackedSize} unpacked.`,
  )
  checkContents(paths)
  checkExports(paths)
  runTool('publint', ['publint', 'run', tarball, '--strict'])
  runTool('attw', ['attw', tarball, '--profile', 'node16', '--no-color'])
  checkLoading(folder, tarball)
  await checkBundling(folder)
  for (const name of ['service', 'dashboard']) checkProgram(name)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
for (const fault of faults) console.error(fault)
process.exitCode = faults.length === 0 ? 0 : 1
