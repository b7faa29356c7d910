/** Subscribes, closes its own client and is then idle: `name port quiet|cut`. */

import { recognise } from '../connections/recognise.js';
import { SubscriptionRecorder } from './subscription-recorder.js';
import { libraries } from './libraries.js';

const [name, port, end] = process.argv.slice(2);
const library = libraries.find((library) => library.name === name);
if (library === undefined) throw new Error(`no library ${name}`);

const { client, run, close } = await library.open(Number(port));
const link = recognise(client);
const heard = new SubscriptionRecorder();
link.subscribe?.('leasehold:channel', heard);
await heard.next('acknowledged');
console.log('acknowledged');
if (end === 'cut') await run('CLIENT', 'KILL', 'TYPE', 'pubsub');
await close();
console.log('the client is closed');
