// @ts-check
// Opens many connections that each wait for a lock, in a process of its own: both ends in one would need twice the files.
// Told `leave`, all hang up at once. Speaks JSON lines: what was asked for, and how it stands.
import { connect } from 'node:net'
import { createInterface } from 'node:readline'

const [port = '', count = '', names = '', token = ''] = process.argv.slice(2)
/** @type {import('node:net').Socket[]} */
const sockets = []
/** Connections that are being opened: the other side accepts a bounded number at a time. */
const OPENING_MAX = 200
let opened = 0
/** @type {Record<string, number>} */
const answers = {}
let failed = 0

/** @param {number} index */
function open(index) {
  const socket = connect(Number(port), '127.0.0.1')
  sockets.push(socket)
  let isOpen = false
  const next = () => {
    if (isOpen) return
    isOpen = true
    opened += 1
    if (sockets.length < Number(count)) open(sockets.length)
  }
  socket.once('connect', () => {
    const body = JSON.stringify({ waitMs: 600_000, ttlMs: 60_000 })
    const login = token === '' ? '' : `Authorization: Bearer ${token}\r\n`
    socket.write(
      `POST /v1/locks/crowd%2F${index % Number(names)}/acquire HTTP/1.1\r\nHost: localhost\r\n${login}` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    next()
  })
  socket.on('data', (chunk) => {
    const status = /^HTTP\/1\.1 (\d{3})/.exec(chunk.toString('latin1'))?.[1]
    if (status !== undefined) answers[status] = (answers[status] ?? 0) + 1
  })
  socket.on('error', () => {
    failed += 1
    next()
  })
}

for (let index = 0; index < Math.min(OPENING_MAX, Number(count)); index += 1) open(index)

createInterface({ input: process.stdin }).on('line', (line) => {
  if (line === 'leave') for (const socket of sockets) socket.destroy()
  if (line === 'end') process.exit(0)
  process.stdout.write(`${JSON.stringify({ opened, failed, answers })}\n`)
})
process.stdin.once('end', () => process.exit(0))
