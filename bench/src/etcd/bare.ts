/** The least that a lock in etcd has to do: a key with a lease, made only if there is none, and its deletion. */

import * as grpc from '@grpc/grpc-js'

const LENGTH = 2
const CREATE = 1

/** As much of the encoding of messages as two requests need. */
function varint(value: bigint | number): Buffer {
  const bytes: number[] = []
  let rest = BigInt(value)
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
  return Buffer.from([...bytes, Number(rest)])
}

function part(tag: number, bytes: Buffer): Buffer {
  return Buffer.concat([varint(tag * 8 + LENGTH), varint(bytes.length), bytes])
}

function number(tag: number, value: bigint | number): Buffer {
  return Buffer.concat([varint(tag * 8), varint(value)])
}

/** Makes a key with a lease if there is none. */
function taking(key: Buffer, lease: bigint): Buffer {
  const compare = Buffer.concat([number(2, CREATE), part(3, key), number(5, 0)])
  const put = Buffer.concat([part(1, key), part(2, Buffer.from('me')), number(3, lease)])
  return Buffer.concat([part(1, compare), part(2, part(2, put))])
}

/** The id of the lease in the answer to a request for one: the second field. */
function leaseIn(answer: Buffer): bigint {
  let at = 0
  const read = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = answer[at] as number
      at += 1
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  for (;;) {
    const key = Number(read())
    if (key === 2 * 8) return read()
    if (key % 8 === LENGTH) {
      const length = Number(read())
      at += length
    } else read()
  }
}

export class BareEtcd {
  readonly #client: grpc.Client
  #lease = 0n

  constructor(endpoint: string) {
    this.#client = new grpc.Client(endpoint, grpc.credentials.createInsecure())
  }

  async open(): Promise<this> {
    this.#lease = leaseIn(await this.#ask('Lease/LeaseGrant', number(1, 600)))
    return this
  }

  /** Takes a lock and gives it back. */
  async once(name: string): Promise<void> {
    const key = Buffer.from(`${name}/me`)
    await this.#ask('KV/Txn', taking(key, this.#lease))
    await this.#ask('KV/DeleteRange', part(1, key))
  }

  async close(): Promise<void> {
    await this.#ask('Lease/LeaseRevoke', number(1, this.#lease))
    this.#client.close()
  }

  #ask(method: string, request: Buffer): Promise<Buffer> {
    const asIs = (bytes: Buffer): Buffer => bytes
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(`/etcdserverpb.${method}`, asIs, asIs, request, (error, answer) => {
        if (error !== null) reject(error)
        else resolve(answer as Buffer)
      })
    })
  }
}
