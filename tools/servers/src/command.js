// @ts-check
import { spawn } from 'node:child_process'

export const installMs = 10 * 60_000
const outputTailLength = 1_000

/** What apt-get should do when a package server is slow, or when somebody else is installing. */
export const aptSettings = ['DPkg::Lock::Timeout=300', 'Acquire::Retries=1', 'Acquire::http::Timeout=30']

/** @typedef {{ readonly problem: string | undefined, readonly stdout: string }} CommandResult */

/**
 * Runs a command to its end. Never rejects: it says what went wrong, in words.
 * @param {readonly string[]} command
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<CommandResult>}
 */
export function runCommand([program = '', ...args], env) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env, timeout: installMs })
  let stdout = ''
  let output = ''
  const keep = (/** @type {Buffer} */ chunk) => {
    output = (output + chunk.toString('utf8')).slice(-outputTailLength)
  }
  child.stdout.on('data', (chunk) => {
    stdout += chunk.toString('utf8')
    keep(chunk)
  })
  child.stderr.on('data', keep)
  return new Promise((resolve) => {
    child.once('error', (error) => {
      resolve({ problem: `${program} could not be run: ${error.message}`, stdout })
    })
    child.once('close', (code) => {
      const problem = `\`${[program, ...args].join(' ')}\` failed: ${output.trim()}`
      resolve({ problem: code === 0 ? undefined : problem, stdout })
    })
  })
}
