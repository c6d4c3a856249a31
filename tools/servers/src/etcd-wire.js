// @ts-check
// Asks etcd something without a client library: its gateway takes JSON over HTTP.
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'

const answerMs = 10_000

/** The server refused a request. */
export class EtcdError extends Error {
  /** @param {string} message @param {number} status */
  constructor(message, status) {
    super(message)
    this.name = 'EtcdError'
    this.status = status
  }
}

/**
 * Sends one request over a connection of its own. Keys and values are base64, and numbers of 64 bits are texts.
 * @param {number} port
 * @param {string} path Such as `/v3/kv/put`.
 * @param {object} body
 * @param {{ ca?: string | undefined, timeoutMs?: number }} [options]
 * @returns {Promise<any>}
 */
export function etcdRequest(port, path, body, { ca, timeoutMs = answerMs } = {}) {
  const send = ca === undefined ? httpRequest : httpsRequest
  return new Promise((resolve, reject) => {
    const text = JSON.stringify(body)
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    const options = { host: '127.0.0.1', port, path, method: 'POST', agent: false, headers, ca }
    const request = send({ ...options, signal: AbortSignal.timeout(timeoutMs) }, (response) => {
      let answer = ''
      response.setEncoding('utf8')
      response.on('data', (chunk) => {
        answer += chunk
      })
      response.on('error', reject)
      response.on('end', () => {
        const { statusCode = 0 } = response
        try {
          if (statusCode !== 200) throw new EtcdError(answer.trim(), statusCode)
          resolve(JSON.parse(answer))
        } catch (error) {
          reject(error)
        }
      })
    })
    request.on('error', reject)
    request.end(text)
  })
}

/** @param {string} text */
export function base64(text) {
  return Buffer.from(text).toString('base64')
}
