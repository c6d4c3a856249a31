// @ts-check
// Finds the places where code takes time or randomness from the machine instead of from the system it was given.
// A simulation can replay a run from its seed only if the library has no such hidden input.
import ts from 'typescript'
import { lineOf } from './source-files.mjs'

/** Members of global objects and of built-in modules that read a clock, start a timer or give randomness. */
const members = new Map(
  Object.entries({
    Date: ['now'],
    performance: ['now'],
    process: ['hrtime'],
    Math: ['random'],
    AbortSignal: ['timeout'],
    crypto: ['randomBytes', 'randomUUID', 'randomInt', 'getRandomValues'],
    globalThis: ['setTimeout', 'setInterval', 'setImmediate', 'performance', 'crypto'],
  }).map(([object, names]) => [object, new Set(names)]),
)

/** Names that are hidden inputs wherever they stand for a value of their own. */
const names = new Set([
  'setTimeout',
  'setInterval',
  'setImmediate',
  'randomBytes',
  'randomUUID',
  'randomInt',
  'getRandomValues',
])

/** Modules that exist only to give timers or clocks. */
const modules = new Set([
  'node:timers',
  'node:timers/promises',
  'node:perf_hooks',
  'timers',
  'timers/promises',
  'perf_hooks',
])

/**
 * True when the identifier is only the name of a member, as in `clock.setTimeout` or `{ setTimeout: start }`.
 * @param {ts.Identifier} node
 */
function isMemberName(node) {
  const parent = node.parent
  if (ts.isPropertyAccessExpression(parent)) return parent.name === node
  if (ts.isQualifiedName(parent)) return parent.right === node
  const isMember =
    ts.isPropertyAssignment(parent) ||
    ts.isPropertySignature(parent) ||
    ts.isPropertyDeclaration(parent) ||
    ts.isMethodDeclaration(parent) ||
    ts.isMethodSignature(parent)
  return isMember && parent.name === node
}

/**
 * The name of the hidden input that a node uses, or null.
 * @param {ts.Node} node
 * @returns {string | null}
 */
function hiddenInput(node) {
  if (ts.isPropertyAccessExpression(node) && ts.isIdentifier(node.expression)) {
    const object = node.expression.text
    return members.get(object)?.has(node.name.text) ? `${object}.${node.name.text}` : null
  }
  if (ts.isElementAccessExpression(node) && ts.isIdentifier(node.expression)) {
    const object = node.expression.text
    const key = ts.isStringLiteralLike(node.argumentExpression) ? node.argumentExpression.text : ''
    return members.get(object)?.has(key) ? `${object}.${key}` : null
  }
  if (ts.isNewExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === 'Date') {
    return (node.arguments?.length ?? 0) === 0 ? 'new Date()' : null
  }
  if (ts.isIdentifier(node) && names.has(node.text)) return isMemberName(node) ? null : node.text
  if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier)) {
    return modules.has(node.moduleSpecifier.text) ? node.moduleSpecifier.text : null
  }
  return null
}

/**
 * Lists the hidden inputs of a source file.
 * @param {ts.SourceFile} source
 * @returns {{ name: string, line: number }[]}
 */
export function hiddenInputs(source) {
  /** @type {{ name: string, line: number }[]} */
  const found = []
  /** @param {ts.Node} node */
  const visit = (node) => {
    const name = hiddenInput(node)
    if (name !== null) found.push({ name, line: lineOf(source, node) })
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}
