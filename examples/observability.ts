// What a process does with its locks, as metrics for Prometheus and as spans for OpenTelemetry. Two callers want the same
// lock; then the page is read as Prometheus would, and the spans are shown as they end.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { BasicTracerProvider, type ReadableSpan, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { connect } from 'holdfast'
import { instrument } from 'holdfast/opentelemetry'
import { createMetrics } from 'holdfast/prometheus'

// Names are in no label; this says which group a name belongs to.
const metrics = createMetrics({ labelFor: (name) => name.split(':')[0] ?? 'other' })
// The registry takes metrics of your own as well.
const reports = metrics.registry.counter({
  name: 'reports_total',
  help: 'Reports written.',
  labels: ['format'],
})

const server = createServer((request, response) => {
  const { contentType, body } = metrics.expose(request.headers.accept)
  response.writeHead(200, { 'content-type': contentType }).end(body)
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

// In a service the SDK for Node.js is set up elsewhere, and this is `trace.getTracer('my-app')`.
const show = (spans: ReadableSpan[]): void => {
  for (const { name, attributes } of spans) console.log(`  ${name}`, attributes)
}
const provider = new BasicTracerProvider({
  spanProcessors: [
    new SimpleSpanProcessor({ export: (spans) => show(spans), shutdown: () => Promise.resolve() }),
  ],
})
const instrumentation = instrument({ tracer: provider.getTracer('example'), names: true })

console.log('spans:')
const locks = await connect('memory:')
const report = async (format: string): Promise<void> => {
  await locks.mutex('report:monthly').run(async () => {
    await sleep(5)
    reports.add({ format })
  })
}
await Promise.all([report('pdf'), report('csv')])

console.log('metrics:')
const { port } = server.address() as AddressInfo
const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
const lines = page
  .split('\n')
  .filter((line) => /^(reports|holdfast_(acquisitions|contended|held))/.test(line))
console.log(lines.map((line) => `  ${line}`).join('\n'))

await locks.close()
instrumentation.close()
metrics.close()
server.close()
