// @ts-check
// The steps of each test command, as data.
import { resolve } from 'node:path'

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {string} command
 * @property {readonly string[]} args
 * @property {Readonly<Record<string, string>>} [env]
 * @property {string} what What the step catches, or what it prepares.
 * @property {boolean} [required] If it fails, the run ends: later steps need what it makes.
 */

/**
 * Everything but the installation stays on loopback. Node reads further certificate authorities each time it starts, which
 * takes longer than the start itself, and the tests start some 2,000 processes.
 * @type {Readonly<Record<string, string>>}
 */
const loopback = { NODE_EXTRA_CA_CERTS: '' }

/** @typedef {'quick' | 'full' | 'deep'} PlanName */
/** @typedef {{ readonly what: string, readonly steps: readonly Step[] }} Plan */

/** Vitest is started without `npx`, so that signals reach it and not only a process between. */
const vitest = resolve(import.meta.dirname, '../../node_modules/vitest/vitest.mjs')

/** The step that runs Vitest has this name in every plan. */
export const testsStep = 'tests'

/**
 * @param {readonly string[]} options
 * @param {Readonly<Record<string, string>>} env
 * @param {string} what
 * @returns {Step}
 */
function tests(options, env, what) {
  return {
    name: testsStep,
    command: process.execPath,
    args: [vitest, 'run', ...options],
    env: { ...loopback, ...env },
    what,
  }
}

/** @type {Step} */
const install = {
  name: 'install',
  command: 'npm',
  args: ['run', '--silent', 'servers', '--', 'install'],
  what: 'Installs the servers that the tests start.',
  required: true,
}

/** @type {Step} */
const build = {
  name: 'build',
  command: 'npm',
  args: ['run', '--silent', 'build'],
  what: 'Builds all packages: catches source that does not compile or bundle.',
  required: true,
}

/**
 * @param {readonly string[]} options
 * @param {string} what
 * @returns {Step}
 */
function simulation(options, what) {
  const args = ['packages/torture/dist/sim/main.js', '--suite', ...options]
  return { name: 'simulation', command: process.execPath, args, env: loopback, what }
}

/**
 * @param {readonly string[]} options
 * @param {string} what
 * @returns {Step}
 */
function torture(options, what) {
  const common = ['--side-by-side', '4', '--json', 'torture-results.json']
  const args = ['packages/torture/dist/suite/main.js', ...common, ...options]
  return { name: 'torture', command: process.execPath, args, env: loopback, what }
}

/** @type {Step} */
const lab = {
  name: 'lab',
  command: process.execPath,
  args: ['packages/cli/dist/main.js', 'lab', 'run', '--all', '--side-by-side', '10'],
  env: loopback,
  what: 'Plays known broken recipes on real servers: catches a recipe of ours that breaks in the same way.',
}

/** @type {Step} */
const mutants = {
  name: 'mutants',
  command: process.execPath,
  args: ['packages/torture/dist/lab/mutants.js'],
  env: loopback,
  what: 'Plants faults in our recipes on real servers: catches a fault that no schedule of the lab finds.',
}

/**
 * @param {readonly string[]} options
 * @param {string} what
 * @returns {Step}
 */
function surroundings(options, what) {
  const args = ['packages/torture/dist/surroundings/main.js', ...options]
  return { name: 'surroundings', command: process.execPath, args, env: loopback, what }
}

/** @type {Step} */
const surroundingMutants = {
  name: 'surroundings mutants',
  command: process.execPath,
  args: ['packages/torture/dist/surroundings/main.js', '--mutants'],
  env: loopback,
  what: 'Plants faults around the locks: catches a check of the surroundings that has become blind.',
}

/** The variables that make tests longer. @type {Readonly<Record<string, string>>} */
export const deepEnv = {
  // Tests with two sizes take the large one: `grep -r atDepth` lists them.
  HOLDFAST_TEST_DEPTH: 'deep',
  // How many clients wait at the service at the same time (2,000 without it).
  HOLDFAST_CROWD: '10000',
  // The stores on which deadlocks are detected (memory, sqlite and redis without it). Consul cannot detect them.
  HOLDFAST_TEST_STORES: 'memory,sqlite,redis,postgres,mariadb,mysql,memcached,etcd,zookeeper',
}

/** @type {Readonly<Record<PlanName, Plan>>} */
export const plans = {
  quick: {
    what: 'Tests that need no server, for use while you edit.',
    steps: [
      tests(
        [],
        { HOLDFAST_SERVERS: 'none' },
        'Runs the tests that need no server: catches faults of the core, the memory store and SQLite.',
      ),
    ],
  },
  full: {
    what: 'Everything that must pass before a change is merged.',
    steps: [
      install,
      build,
      tests([], {}, 'Runs all tests on all stores: catches faults of every package.'),
      simulation(
        // The mutant that is hardest to find needs 250,000 steps.
        ['--steps', '700000', '--soak', '6000'],
        'Runs the core on virtual time with faults and planted mutants: catches races that no schedule on real ' +
          'servers hits.',
      ),
      torture(
        ['--seconds', '8', '--workers', '3'],
        'Kills, pauses and partitions real servers and clients: catches two holders at the same time, and stale ' +
          'fencing tokens.',
      ),
      lab,
      mutants,
      surroundings(
        [],
        'Checks process lifetime, async context, memory and statements of callers on every recipe: catches faults ' +
          'around a lock.',
      ),
      surroundingMutants,
    ],
  },
  deep: {
    what: 'The same as full with more repetitions, for the night.',
    steps: [
      install,
      build,
      tests([], deepEnv, 'Runs all tests with more repetitions: catches faults that need many trials.'),
      simulation(
        ['--steps', '50000000', '--soak', '120000'],
        'Runs the simulation for seventy times as many steps: catches races that few seeds have.',
      ),
      torture(
        ['--seconds', '300'],
        'Runs each torture for 300 seconds: catches races that need rare combinations of faults.',
      ),
      lab,
      mutants,
      surroundings(
        ['--deep'],
        'Runs the checks of the surroundings with many acquisitions: catches leaks that only their number shows.',
      ),
      surroundingMutants,
    ],
  },
}

/** @param {string | undefined} name @returns {name is PlanName} */
export function isPlanName(name) {
  return name !== undefined && Object.hasOwn(plans, name)
}

/**
 * The steps of a plan; with files, only the step that runs Vitest, on these files.
 * @param {PlanName} name
 * @param {readonly string[]} files
 * @returns {readonly Step[]}
 */
export function stepsOf(name, files) {
  const { steps } = plans[name]
  if (files.length === 0) return steps
  return steps
    .filter((step) => step.name === testsStep)
    .map((step) => ({ ...step, args: [...step.args, ...files] }))
}
