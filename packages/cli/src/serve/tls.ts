import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { UsageError } from '../failure.js'

interface TlsFiles {
  readonly cert: Buffer
  readonly key: Buffer
}

interface TlsOptions {
  readonly tlsCert?: string
  readonly tlsKey?: string
}

/** Reads the two files of TLS and makes sure that a server can be made of them; null where none was given. */
export async function readTls({ tlsCert, tlsKey }: TlsOptions): Promise<TlsFiles | null> {
  if (tlsCert === undefined && tlsKey === undefined) return null
  if (tlsCert === undefined || tlsKey === undefined) {
    throw new UsageError('--tls-cert and --tls-key belong together')
  }
  const cert = await readPem(tlsCert, '--tls-cert')
  const key = await readPem(tlsKey, '--tls-key')
  checkTls(cert, key)
  return { cert, key }
}

/** One after the other, because the error of both together does not say which of them it is about. */
function checkTls(cert: Buffer, key: Buffer): void {
  orRefuse(() => createSecureContext({ cert }), 'the file of --tls-cert has no certificate that can be used')
  orRefuse(
    () => createSecureContext({ key }),
    'the file of --tls-key has no key that can be used without a passphrase',
  )
  const apart =
    'the key in the file of --tls-key does not belong to the certificate in the file of --tls-cert'
  // A context of both is not refused if they are of different kinds, such as EC and RSA; then every handshake would fail.
  const together = orRefuse(() => new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)), apart)
  if (!together) throw new UsageError(apart)
  orRefuse(() => createSecureContext({ cert, key }), apart)
}

async function readPem(file: string, option: string): Promise<Buffer> {
  let text: Buffer
  try {
    text = await readFile(file)
  } catch (error) {
    throw new UsageError(
      `the file of ${option} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'error'})`,
    )
  }
  if (!text.includes('-----BEGIN ')) throw new UsageError(`the file of ${option} is not PEM`)
  return text
}

/** The code is one of a fixed list, so nothing of a file can be in it. The message is left out, because it might be. */
function orRefuse<T>(use: () => T, problem: string): T {
  try {
    return use()
  } catch (error) {
    throw new UsageError(`${problem} (${(error as NodeJS.ErrnoException).code ?? 'error'})`)
  }
}
