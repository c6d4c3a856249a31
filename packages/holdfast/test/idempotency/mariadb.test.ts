// @module-tag effects
import { describeRun } from './contract/suite.js'

await describeRun('mariadb', (url) => `${url}?max=4`)
