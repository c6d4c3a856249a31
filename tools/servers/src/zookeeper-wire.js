// @ts-check
// Just enough of the protocol of ZooKeeper to ask a server something: its words of four letters, and a session that is
// opened and closed. As with the others, no client library is used.
import { connect } from 'node:net'
import { converse } from './wire.js'

const closeSession = -11
const passwordLength = 16
// The length, and the number, the change and the code of an answer.
const answerLength = 20

/**
 * Sends one of the words of four letters, such as `srvr`, and gives the answer as text.
 * @param {number} port
 * @param {string} word
 * @param {{ timeoutMs?: number | undefined }} [options] 5 seconds unless given.
 * @returns {Promise<string>}
 */
export function zookeeperWord(port, word, { timeoutMs = 5_000 } = {}) {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect({ host: '127.0.0.1', port, noDelay: true }, () => socket.write(word))
    const timer = setTimeout(() => {
      socket.destroy(new Error(`The server on port ${port} did not answer ${word} within ${timeoutMs} ms.`))
    }, timeoutMs)
    socket.setEncoding('utf8')
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.once('error', reject)
    socket.once('close', () => {
      clearTimeout(timer)
      resolve(text)
    })
  })
}

/**
 * Opens a session and closes it. Both are agreed upon by most servers of an ensemble, so it shows that writes work.
 * Rejects if the server has no session to give.
 * @param {number} port
 * @param {{ timeoutMs?: number | undefined }} [options] 5 seconds unless given.
 * @returns {Promise<void>}
 */
export function zookeeperSession(port, { timeoutMs = 5_000 } = {}) {
  return converse(port, timeoutMs, async ({ write, read }) => {
    const greeting = Buffer.alloc(4 + 4 + 8 + 4 + 8 + 4 + passwordLength)
    greeting.writeInt32BE(greeting.length - 4, 0)
    greeting.writeInt32BE(4_000, 16)
    greeting.writeInt32BE(passwordLength, 28)
    write(greeting)
    const welcome = await read((await read(4)).readInt32BE(0))
    if (welcome.readInt32BE(4) <= 0) throw new Error(`The server on port ${port} gave no session.`)
    const goodbye = Buffer.alloc(12)
    goodbye.writeInt32BE(8, 0)
    goodbye.writeInt32BE(1, 4)
    goodbye.writeInt32BE(closeSession, 8)
    write(goodbye)
    const answer = await read(answerLength)
    if (answer.readInt32BE(16) !== 0) throw new Error(`The server on port ${port} did not close a session.`)
  })
}
