// @ts-check
// Asks a Consul agent something without a client library.
import { request } from 'node:http'
import { request as secureRequest } from 'node:https'

/**
 * @typedef {object} ConsulRequestOptions
 * @property {string | undefined} [body]
 * @property {string | undefined} [token]
 * @property {string | undefined} [ca] The certificate to trust; given, TLS is spoken.
 * @property {number} [timeoutMs]
 */

/** @typedef {{ readonly status: number, readonly text: string, readonly index: string | undefined }} ConsulAnswer */

/**
 * Sends one request over a connection of its own.
 * @param {number} port
 * @param {string} method
 * @param {string} path From `/v1` on.
 * @param {ConsulRequestOptions} [options]
 * @returns {Promise<ConsulAnswer>}
 */
export function consulRequest(port, method, path, { body, token, ca, timeoutMs = 10_000 } = {}) {
  const settings = {
    host: '127.0.0.1',
    port,
    method,
    path,
    agent: false,
    signal: AbortSignal.timeout(timeoutMs),
    headers: token === undefined ? {} : { 'X-Consul-Token': token },
  }
  return new Promise((resolve, reject) => {
    const sent =
      ca === undefined ? request(settings) : secureRequest({ ...settings, ca, servername: 'localhost' })
    sent.once('error', reject)
    sent.once('response', (response) => {
      /** @type {Buffer[]} */
      const chunks = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.once('error', reject)
      response.once('end', () => {
        const index = response.headers['x-consul-index']
        const text = Buffer.concat(chunks).toString('utf8')
        resolve({
          status: response.statusCode ?? 0,
          text,
          index: typeof index === 'string' ? index : undefined,
        })
      })
    })
    sent.end(body)
  })
}
