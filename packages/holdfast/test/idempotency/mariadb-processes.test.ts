import { describeProcesses } from './processes/suite.js'

await describeProcesses('mariadb', (url) => `${url}?max=4`)
