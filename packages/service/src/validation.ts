import type { FastifyInstance, FastifySchemaCompiler } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { Convert } from 'typebox/value'

/** As much of a path is passed on. */
const PATH_MAX = 120
/** Any field of the API, or a place in a list. What looks otherwise may be a secret that stands in the wrong place. */
const PLAIN = /^([A-Za-z]{0,31}|\d{1,4})$/
const UNKNOWN_FIELD = 'schema is false'

/**
 * Checks what comes in by the schemas of the routes, each compiled once. Nothing is filled in, dropped or converted in a
 * body: it is either what the schema says or refused. Queries are text, so there numbers are read from it.
 */
const compiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const check = Compile(schema)
  const isText = httpPart === 'querystring'
  return (given: unknown) => {
    const value: unknown = isText ? Convert(schema, given) : given
    if (check.Check(value)) return { value }
    return { error: new ValidationError(`${httpPart ?? 'input'}${describe(check.Errors(value)[0])}`) }
  }
}

/** The path of a field and the rule that it breaks. No value is in it. */
function describe(error: { readonly instancePath: string; readonly message: string } | undefined): string {
  if (error === undefined) return ' is invalid'
  const parts = error.instancePath.slice(0, PATH_MAX).split('/')
  const where = parts.map((part) => (PLAIN.test(part) ? part : '…')).join('/')
  // A field that the schema does not know is checked against a schema that nothing fits.
  return error.message === UNKNOWN_FIELD ? `${where} is not a known field` : `${where} ${error.message}`
}

/** The framework knows by `validation` what kind of error it is. */
class ValidationError extends Error {
  readonly validation: readonly never[] = []

  constructor(message: string) {
    super(message)
    this.name = 'ValidationError'
  }
}

/** Answers are written as they are: what a schema says of them is for readers, and is checked by the tests. */
export function useSchemas(app: FastifyInstance): void {
  app.setValidatorCompiler(compiler as FastifySchemaCompiler<unknown>)
  app.setSerializerCompiler(() => (data) => JSON.stringify(data))
}
