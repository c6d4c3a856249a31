// @ts-check
// Nothing that was started here may outlive the process that started it. An exit handler ends it where the process can
// still act. Against SIGKILL, each server has a guard: a small shell that holds the other end of a pipe, and that ends
// the server and removes its folder when the pipe closes.
import { spawn } from 'node:child_process'

/** @type {Set<number>} */
const running = new Set()
process.on('exit', () => {
  for (const pid of running) signalPid(pid, 'SIGKILL')
})

// The guard reads what to watch line by line: the number of the process, `none`, or `end` when there is nothing left
// to do. It has a session of its own, so Ctrl-C in a terminal does not end it before its work is done. A server that is
// about to end can still make a file while its folder is removed, so that is tried more than once.
const script = `
trap '' HUP INT TERM
pid=none
while read -r line; do
  [ "$line" = end ] && exit 0
  pid=$line
done
[ "$pid" = none ] || kill -KILL "$pid"
for try in 1 2 3 4 5; do
  rm -rf "$1" && exit 0
  sleep 0.2
done
`

/**
 * Sends a signal; gives false if the process is gone.
 * @param {number} pid
 * @param {NodeJS.Signals} signal
 */
export function signalPid(pid, signal) {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ESRCH') return false
    throw error
  }
}

/**
 * @typedef {object} Guard
 * @property {(pid: number) => void} watch The server runs as this process now.
 * @property {(pid: number) => void} forget The process has ended.
 * @property {() => void} end Nothing is left to guard.
 */

/**
 * Starts the guard of one server.
 * @param {string} folder The folder that is removed when this process is gone.
 * @returns {Guard}
 */
export function startGuard(folder) {
  const shell = spawn('/bin/sh', ['-c', script, 'holdfast-guard', folder], {
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
