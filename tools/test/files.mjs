// @ts-check
// Which test files each command runs.

/** Every test file. */
export const everyFile = ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts']

/** The files of `npm run test:quick`: they need no server, no browser and no build, and none of them waits for long. */
export const quickFiles = {
  include: [
    'packages/dashboard/test/model/**/*.test.ts',
    'packages/holdfast/test/{core,input,sessions,shared,sqlite}/**/*.test.ts',
    'packages/holdfast/test/conformance/{memory,suite}.test.ts',
    'packages/holdfast/test/deadlocks/{flow-text,lock-order,side-by-side,store-identity,wait-graph*,watch}.test.ts',
    'packages/holdfast/test/http/{answered-before,fastify-routes,mounting,parts,request-limit}.test.ts',
    'packages/holdfast/test/{consul,etcd,zookeeper,redis,sql}/{address,agent-dates,proto,layout,clock,votes,call-lane,own-transaction}.test.ts',
    'packages/holdfast/test/http-service/{address,client}.test.ts',
    'packages/holdfast/test/idempotency/{fingerprints,keys,local-cache,memory,requirements,values}.test.ts',
    'packages/holdfast/test/observe/{events,registry,zeros}.test.ts',
    'packages/holdfast/test/records/{memory,record-text,suite}.test.ts',
    'packages/service/test/{records,security,watch}/**/*.test.ts',
    'packages/service/test/glances.test.ts',
    'packages/torture/test/{check,suite}/**/*.test.ts',
    'packages/torture/test/report/model.test.ts',
    'test/docs/**/*.test.ts',
    'test/support/**/*.test.ts',
    'test/tools/{check-imports,check-tidy,compare-titles,test-report,test-cpu}.test.ts',
  ],
  exclude: [
    'packages/holdfast/test/sqlite/differential.test.ts',
    'packages/service/test/security/{crowds,secrets}.test.ts',
    'packages/torture/test/check/{agreement,speed}.test.ts',
  ],
}
