export { type EtcdLineOptions, type EtcdOptions, etcdBackend } from './backends/etcd/backend.js'
export type { EtcdTls, Grpc, GrpcCall, GrpcClient, GrpcMetadata, GrpcStream } from './backends/etcd/client.js'
export { type EtcdGuard, etcdGuard, type FenceCondition, type Fenced } from './backends/etcd/guard.js'
export { ETCD_GUARANTEES } from './backends/etcd/nodes.js'
