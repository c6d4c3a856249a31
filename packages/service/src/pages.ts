import type { FastifyInstance } from 'fastify'
import { pages, type StaticPage } from 'holdfast-dashboard'

const YEAR_SECONDS = 31_536_000

/** Adds the dashboard. Its files hold no data, so they are read without a token; what they ask for is not. */
export async function pageRoutes(app: FastifyInstance): Promise<void> {
  for (const page of pages) {
    app.get(page.path, { schema: { hide: true }, config: { open: true } }, (request, reply) => {
      void reply.header('cache-control', cachingOf(page)).header('etag', page.etag)
      if (request.headers['if-none-match'] === page.etag) return reply.code(304).send()
      return reply.type(page.type).send(page.body)
    })
  }
}

function cachingOf({ immutable }: StaticPage): string {
  return immutable ? `public, max-age=${YEAR_SECONDS}, immutable` : 'no-cache'
}
