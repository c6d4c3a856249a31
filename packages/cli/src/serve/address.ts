import { InvalidArgumentError } from 'commander'

export interface ListenAddress {
  readonly host: string
  readonly port: number
}

const FORM = /^(?:\[([0-9A-Fa-f:.%]+)\]|([^:[\]]*)):(\d{1,5})$/
const PORT_MAX = 65_535

/** Reads `HOST:PORT`, `[IPV6]:PORT` or `:PORT`, which means this machine only. */
export function readListen(text: string): ListenAddress {
  const [, ipv6, host, portText] = FORM.exec(text) ?? []
  const port = Number(portText)
  if (portText === undefined || port > PORT_MAX) {
    throw new InvalidArgumentError('expected HOST:PORT, such as 127.0.0.1:4600')
  }
  return { host: ipv6 ?? (host === undefined || host === '' ? '127.0.0.1' : host), port }
}
