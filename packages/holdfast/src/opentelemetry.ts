export { type Instrumentation, type InstrumentOptions, instrument } from './observe/opentelemetry.js'
