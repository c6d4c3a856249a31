import { InvalidInputError } from 'holdfast'
import { createService, type ServiceOptions } from 'holdfast-service'
import { expect, it } from 'vitest'

it.each([[undefined], [null], ['']])('a service whose `url` is %j is refused', async (url) => {
  const options = { url, listen: { port: 0 } } as ServiceOptions
  await expect(createService(options)).rejects.toBeInstanceOf(InvalidInputError)
})
