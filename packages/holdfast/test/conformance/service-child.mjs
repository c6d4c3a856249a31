// @ts-check
// Serves the store of a URL on a port, says where, and stays until it is killed.
import { argv, stdout } from 'node:process'
import { createService } from 'holdfast-service'

const [url = '', port = ''] = argv.slice(2)
const service = await createService({ url, listen: { host: '127.0.0.1', port: Number(port) } })
stdout.write(`${await service.listen()}\n`)
