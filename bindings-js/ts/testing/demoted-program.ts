/** A separate process: `demoted-program.ts <library> <port of a replica>`. Nobody answers at the address that the manager goes to. */

import { isLeaseholdError, LockManager } from '../index.js';
import { caught } from './expect.js';
import { IMPATIENT } from './generous.js';
import { libraries } from './libraries.js';
import { startProxy } from './proxy.js';

const [name, port] = process.argv.slice(2);
const library = libraries.find((library) => library.name === name);
if (library === undefined) throw new Error(`no library ${name}`);

const proxy = await startProxy(Number(port));
const { client, close } = await library.open(proxy.port);
proxy.close();
const locks = new LockManager(client, IMPATIENT);
const error = await caught(locks.mutex('a').tryAcquire());
if (!isLeaseholdError(error, 'unreachable')) throw error;
await locks.close();
await close();
console.log('the client is closed');
