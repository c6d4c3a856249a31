export * from './security/exports.js'
export {
  createService,
  type Service,
  type ServiceCloseOptions,
  type ServiceOptions,
} from './service.js'
