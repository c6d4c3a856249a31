import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { DOCS_PATH } from './security/headers.js'

const ABOUT = `Distributed locks over HTTP: a stateless door in front of one store.

Durations are whole milliseconds. Fences are decimal texts, because they exceed 2^53. Every problem is
\`application/problem+json\`, and its \`code\` is what a program looks at.`

/** Describes the API from the schemas of its routes, so it must come before them. */
export async function describeApi(
  app: FastifyInstance,
  { version, hasAuth }: { readonly version: string; readonly hasAuth: boolean },
): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Holdfast', version, description: ABOUT, license: { name: 'MIT', identifier: 'MIT' } },
      tags: [
        { name: 'locks', description: 'Take, keep, give back, look, and break.' },
        { name: 'live', description: 'What happens, and what has happened.' },
        { name: 'tokens', description: 'Tokens that are good for one thing, a number of times.' },
        { name: 'records', description: 'Records of idempotency.' },
        { name: 'service', description: 'The service itself.' },
      ],
      components: {
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer', description: 'Made with `holdfast token create`.' },
        },
      },
      ...(hasAuth ? { security: [{ bearer: [] }] } : {}),
    },
  })
  await app.register(swaggerUi, {
    routePrefix: DOCS_PATH,
    uiConfig: { docExpansion: 'list', deepLinking: true, tryItOutEnabled: true },
    staticCSP: false,
    theme: { title: 'Holdfast API' },
  })
  app.get('/openapi.json', { schema: { hide: true }, config: { open: true } }, async () => app.swagger())
}
