// @ts-check
// Shared by the checkers: finds files and reads the module specifiers of a source file.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

const skippedFolders = new Set(['node_modules', 'dist', 'coverage', '.git'])

/** A fault that a checker found. @typedef {{ file: string, line: number, text: string }} Fault */

/**
 * Lists the files below a folder whose name ends in a source extension, in a stable order.
 * @param {string} folder
 * @param {RegExp} [pattern]
 * @returns {string[]}
 */
export function sourceFilesBelow(folder, pattern = /\.(ts|mts|cts|js|mjs|cjs)$/) {
  if (!existsSync(folder)) return []
  const found = []
  for (const entry of readdirSync(folder, { withFileTypes: true }).sort((a, b) =>
    a.name < b.name ? -1 : 1,
  )) {
    const path = join(folder, entry.name)
    if (entry.isDirectory() && !skippedFolders.has(entry.name)) found.push(...sourceFilesBelow(path, pattern))
    else if (entry.isFile() && pattern.test(entry.name)) found.push(path)
  }
  return found
}

/**
 * @param {string} path
 * @param {string} text
 */
export function parse(path, text) {
  return ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
}

/**
 * The line of a node, counted from 1.
 * @param {ts.SourceFile} source
 * @param {ts.Node} node
 */
export function lineOf(source, node) {
  return source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1
}

/**
 * Reads every module specifier of a file: static and dynamic imports, re-exports, import types and require calls.
 * @param {ts.SourceFile} source
 * @returns {{ specifier: string, line: number }[]}
 */
export function moduleSpecifiers(source) {
  /** @type {{ specifier: string, line: number }[]} */
  const found = []
  /** @param {ts.Node | undefined} literal */
  const add = (literal) => {
    if (literal !== undefined && ts.isStringLiteralLike(literal)) {
      found.push({ specifier: literal.text, line: lineOf(source, literal) })
    }
  }
  /** @param {ts.Node} node */
  const visit = (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) add(node.moduleSpecifier)
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal)
    else if (ts.isExternalModuleReference(node)) add(node.expression)
    else if (ts.isCallExpression(node)) {
      const isImport = node.expression.kind === ts.SyntaxKind.ImportKeyword
      const isRequire = ts.isIdentifier(node.expression) && node.expression.text === 'require'
      if (isImport || isRequire) add(node.arguments[0])
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

/**
 * Prints the faults and sets the exit code of the process.
 * @param {string} subject
 * @param {Fault[]} faults
 */
export function report(subject, faults) {
  for (const fault of faults) console.error(`${fault.file}:${fault.line}: ${fault.text}`)
  if (faults.length > 0) {
    console.error(`${subject}: ${faults.length} ${faults.length === 1 ? 'fault' : 'faults'}.`)
    process.exitCode = 1
  } else {
    console.log(`${subject}: no fault.`)
  }
}
