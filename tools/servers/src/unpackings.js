// @ts-check
// The programs that are not installed but unpacked into the cache folder, and where they come from.
import { commandIn } from './locations.js'

/**
 * @typedef {object} Unpacking
 * @property {string} suite The suite of Debian that has the package.
 * @property {string} package Its name. Where only packages with a version behind the name are there, it is the newest.
 * @property {string} what What it is, for messages.
 * @property {boolean} isAlone Whether it runs with the libraries of the machine, so that nothing else is unpacked.
 * @property {readonly string[]} unneeded What a server does not use of the packages.
 * @property {readonly string[]} versionArgs What makes it say its version.
 * @property {(said: string) => string} versionOf
 * @property {(root: string) => string[] | undefined} commandIn How to run it.
 */

const documents = ['usr/share/doc', 'usr/share/man', 'usr/share/locale']

/** By the store that they are for. @type {Readonly<Record<string, Unpacking>>} */
export const unpackings = {
  // Debian has it in its unstable suite only, and where it can be installed, as on Ubuntu, its package would drive out
  // the one of MariaDB. It needs newer libraries than those of the machine, down to the C library.
  mysql: {
    suite: 'sid',
    package: 'mysql-server-core',
    what: 'a MySQL server',
    isAlone: false,
    // More than half of it.
    unneeded: ['usr/bin', 'usr/games', 'usr/share/perl', ...documents],
    versionArgs: ['--no-defaults', '--version'],
    versionOf: (said) => said.replace(/^.*(?=Ver )/, ''),
    commandIn: commandIn.mysql,
  },
  // Debian had it last in this suite. The program needs nothing but a C library that is not older.
  consul: {
    suite: 'bullseye',
    package: 'consul',
    what: 'Consul',
    isAlone: true,
    unneeded: ['etc', 'lib', ...documents],
    versionArgs: ['version'],
    versionOf: (said) => `${said.split('\n', 1)[0]}\n`,
    commandIn: commandIn.consul,
  },
}
