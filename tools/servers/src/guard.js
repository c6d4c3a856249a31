// @ts-check
// Nothing that was started here may outlive the process that started it. An exit handler ends it where the process can
// still act. Against SIGKILL, each server has a guard: a small shell that holds the other end of a pipe, and that ends
// the server and removes its folder when the pipe closes.
import { spawn } from 'node:child_process'
import { killFamily } from './family.js'

/** @type {Set<number>} */
const running = new Set()
process.on('exit', () => {
  for (const pid of running) killFamily(pid)
})

// The guard reads what to watch line by line: the number of the process, `none`, or `end` when there is nothing left
// to do. It has a session of its own, so Ctrl-C in a terminal does not end it before its work is done. A server that is
// about to end can still make a file while its folder is removed, so that is tried more than once.
const script = `
trap '' HUP INT TERM
children_of() {
  for stat in /proc/[0-9]*/stat; do
    read -r line < "$stat" || continue
    set -- "$1" \${line##*) }
    child=\${stat#/proc/}
    [ "$3" != "$1" ] || echo "\${child%/stat}"
  done
}
pid=none
while read -r line; do
  [ "$line" = end ] && exit 0
  pid=$line
done
if [ "$pid" != none ]; then
  kill -STOP "$pid"
  kill -KILL "$pid" $(children_of "$pid")
fi
sh -c "$2" holdfast-cleanup "$1"
for try in 1 2 3 4 5; do
  rm -rf "$1" && exit 0
  sleep 0.2
done
`

/**
 * @typedef {object} Guard
 * @property {(pid: number) => void} watch The server runs as this process now.
 * @property {(pid: number) => void} forget The process has ended.
 * @property {() => void} end Nothing is left to guard.
 */

/**
 * Starts the guard of one server.
 * @param {string} folder The folder that is removed when this process is gone.
 * @param {string} cleanup What the shell runs before that. It finds the folder in `$1`.
 * @returns {Guard}
 */
export function startGuard(folder, cleanup) {
  const shell = spawn('/bin/sh', ['-c', script, 'holdfast-guard', folder, cleanup], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    cwd: '/',
  })
  // A guard that cannot be started, or that somebody ended, leaves the exit handler; the server works without it.
  shell.on('error', () => undefined)
  shell.stdin.on('error', () => undefined)
  shell.unref()
  const pipe = /** @type {import('node:net').Socket} */ (shell.stdin)
  pipe.unref()
  return {
    watch(pid) {
      running.add(pid)
      pipe.write(`${pid}\n`)
    },
    forget(pid) {
      running.delete(pid)
      pipe.write('none\n')
    },
    end() {
      pipe.end('end\n')
    },
  }
}
