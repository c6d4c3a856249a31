import { type ChildProcess, spawn } from 'node:child_process'

/**
 * Reads names of processes, one a line. When the pipe closes, the run is over, however it ended: then what is left of
 * the processes is killed, stopped ones too, and the folder is removed.
 */
const SCRIPT = `
trap '' INT TERM HUP QUIT
pids=
while read -r pid; do pids="$pids $pid"; done
for pid in $pids; do
  case "$(ps -o args= -p "$pid" 2>/dev/null)" in *torture-*) kill -KILL "$pid" 2>/dev/null ;; esac
done
rm -rf -- "$1"
`

/** A small shell that outlives this process by a moment, so that nothing else does. Against kill -9 nothing else helps. */
export class Guard {
  readonly #shell: ChildProcess
  readonly #gone: Promise<void>

  constructor(folder: string) {
    this.#shell = spawn('sh', ['-c', SCRIPT, 'sh', folder], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#shell.stdin?.on('error', () => undefined)
    this.#gone = new Promise((resolve) => {
      this.#shell.once('exit', () => resolve())
      this.#shell.once('error', () => resolve())
    })
  }

  watch(pid: number): void {
    this.#shell.stdin?.write(`${pid}\n`)
  }

  /** Ends what is left, removes the folder, and settles when both are done. */
  async end(): Promise<void> {
    this.#shell.stdin?.end()
    await this.#gone
  }
}
