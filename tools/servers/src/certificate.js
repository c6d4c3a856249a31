// @ts-check
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/**
 * Makes a certificate for the loopback address that is signed by itself. Node.js can check certificates but not make
 * them, so the program openssl does.
 */
export async function makeCertificate() {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-certificate-'))
  try {
    const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', keyFile]
    const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost']
    await run('openssl', ['req', '-x509', '-days', '2', ...key, ...names, '-out', certFile])
    return certificateOf(await readFile(keyFile, 'utf8'), await readFile(certFile, 'utf8'))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * @param {string} key
 * @param {string} text
 */
function certificateOf(key, text) {
  /** @param {string} folder */
  const filesIn = (folder) => ({ certFile: join(folder, 'cert.pem'), keyFile: join(folder, 'key.pem') })
  return {
    /** The certificate itself, which is also the one to trust. */
    text,
    filesIn,
    /** @param {string} folder */
    async writeTo(folder) {
      const { certFile, keyFile } = filesIn(folder)
      await writeFile(keyFile, key, { mode: 0o600 })
      await writeFile(certFile, text)
    },
    /** Both in one file, as servers in Java want them. @param {string} file */
    async writeStore(file) {
      await writeFile(file, `${key}${text}`, { mode: 0o600 })
    },
  }
}
