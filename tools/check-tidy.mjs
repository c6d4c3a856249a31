// @ts-check
// Checks what formatters and linters do not: sizes, names, leftover markers, hidden clocks and paths of one machine.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import ts from 'typescript'
import { hiddenInputs } from './lib/hidden-inputs.mjs'
import { lineOf, parse, report, sourceFilesBelow } from './lib/source-files.mjs'

/** @typedef {import('./lib/source-files.mjs').Fault} Fault */

const fileLinesMax = 350
const functionLinesMax = 80
const vagueName = /^(utils?|helpers?|misc)\.[cm]?[jt]s$/i
const markers = new RegExp(`\\b(${['TO' + 'DO', 'FIX' + 'ME', 'XX' + 'X', 'HA' + 'CK'].join('|')})\\b`)
// A path counts only where it starts: `./work/` and `https://example.org/root/` are no paths of a machine.
const machinePath = new RegExp(`(?<![\\w.~*)}-])/(${['work', 'root'].join('|')})/`)
const textFileBytesMax = 2_000_000

/**
 * The files of the library that may touch the clock, the timers and the randomness of the machine. What runs in a browser
 * has no system given to it, and no simulation runs it.
 */
const mayTouchMachine = [/^client\/system\.ts$/, /^backends\/[^/]+\/clock\.ts$/, /^testing\//, /^browser\//]

/**
 * @param {ts.Node} node
 * @returns {boolean}
 */
function isDefaultExport(node) {
  if (ts.isExportAssignment(node)) return true
  if (ts.isExportSpecifier(node)) return node.name.text === 'default'
  const modifiers = ts.canHaveModifiers(node) ? (ts.getModifiers(node) ?? []) : []
  return modifiers.some((modifier) => modifier.kind === ts.SyntaxKind.DefaultKeyword)
}

/**
 * @param {string} file
 * @param {ts.SourceFile} source
 * @returns {Fault[]}
 */
function faultsOfShape(file, source) {
  /** @type {Fault[]} */
  const faults = []
  const lines = source.text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  if (lines.length > fileLinesMax) {
    faults.push({ file, line: 1, text: `the file has ${lines.length} lines; ${fileLinesMax} is the most` })
  }
  if (vagueName.test(basename(file))) {
    faults.push({ file, line: 1, text: 'the name of the file does not say what is in it' })
  }
  lines.forEach((text, index) => {
    if (markers.test(text)) faults.push({ file, line: index + 1, text: `leftover marker: ${text.trim()}` })
  })
  /** @param {ts.Node} node */
  const visit = (node) => {
    if (isDefaultExport(node)) faults.push({ file, line: lineOf(source, node), text: 'default export' })
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined) {
      const first = lineOf(source, node)
      const length = source.getLineAndCharacterOfPosition(node.end).line + 2 - first
      if (length > functionLinesMax) {
        faults.push({
          file,
          line: first,
          text: `a function has ${length} lines; ${functionLinesMax} is the most`,
        })
      }
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return faults
}

const hooks = new Set(['afterAll', 'afterEach', 'beforeAll', 'beforeEach'])

/**
 * Test files share processes, and a module that they share is loaded once. Hooks that it registers while it is loaded
 * would count for the first file only. A test that is run again until it passes hides a fault.
 * @param {string} file
 * @param {ts.SourceFile} source
 * @returns {Fault[]}
 */
function faultsOfTests(file, source) {
  /** @type {Fault[]} */
  const faults = []
  if (!/\.test\.[cm]?ts$/.test(file)) {
    for (const statement of source.statements) {
      if (!ts.isExpressionStatement(statement) || !ts.isCallExpression(statement.expression)) continue
      const called = statement.expression.expression
      if (ts.isIdentifier(called) && hooks.has(called.text)) {
        const text = `${called.text} is registered when the module is loaded, so for the first test file only`
        faults.push({ file, line: lineOf(source, statement), text })
      }
    }
  }
  source.text.split('\n').forEach((text, index) => {
    if (/\{ retry: [1-9]\d* \}/.test(text))
      faults.push({ file, line: index + 1, text: 'a test that is run again until it passes' })
  })
  return faults
}

/**
 * Lists the files that git tracks or would track; without git there is nothing to check.
 * @param {string} root
 */
function trackedFiles(root) {
  if (!existsSync(join(root, '.git'))) return []
  const listing = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  return listing.split('\0').filter((path) => path !== '' && existsSync(join(root, path)))
}

/**
 * @param {string} root
 * @returns {Fault[]}
 */
function faultsOfPaths(root) {
  /** @type {Fault[]} */
  const faults = []
  for (const file of trackedFiles(root)) {
    const path = join(root, file)
    const stat = statSync(path)
    if (!stat.isFile() || stat.size > textFileBytesMax) continue
    const text = readFileSync(path, 'utf8')
    if (text.includes('\0')) continue
    text.split('\n').forEach((line, index) => {
      if (machinePath.test(line))
        faults.push({ file, line: index + 1, text: `path of one machine: ${line.trim()}` })
    })
  }
  return faults
}

/**
 * Checks a repository and returns what is wrong.
 * @param {string} root
 * @returns {Fault[]}
 */
export function checkTidy(root) {
  /** @type {Fault[]} */
  const faults = []
  const packagesFolder = join(root, 'packages')
  const packages = existsSync(packagesFolder) ? readdirSync(packagesFolder).sort() : []
  for (const name of packages) {
    const src = join(packagesFolder, name, 'src')
    for (const path of sourceFilesBelow(src)) {
      const file = relative(root, path)
      const source = parse(path, readFileSync(path, 'utf8'))
      faults.push(...faultsOfShape(file, source))
      const below = relative(src, path).replaceAll('\\', '/')
      if (name !== 'holdfast' || mayTouchMachine.some((pattern) => pattern.test(below))) continue
      for (const input of hiddenInputs(source)) {
        faults.push({ file, line: input.line, text: `${input.name} is used outside the injected system` })
      }
    }
  }
  const testFolders = [join(root, 'test'), ...packages.map((name) => join(packagesFolder, name, 'test'))]
  for (const path of testFolders.flatMap((folder) => [...sourceFilesBelow(folder)])) {
    faults.push(...faultsOfTests(relative(root, path), parse(path, readFileSync(path, 'utf8'))))
  }
  return [...faults, ...faultsOfPaths(root)]
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  report('Tidiness', checkTidy(resolve(import.meta.dirname, '..')))
}
