// A peer for libraries in Node: see ../README.md.
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { libraries } from './libraries.mjs';
import { count, work } from './work.mjs';

async function main(args) {
  if (args.length !== 4) throw new Error('usage: peer LIBRARY REDIS_URL NAME TTL_MS');
  const [library, urls, name, ttl] = args;
  const lockOf = libraries[library];
  if (!lockOf) throw new Error(`no library ${library} here`);
  const servers = urls.split(',').map((url) => new Redis(url));
  const [redis] = servers;
  const locks = (name, poll) => lockOf(servers, name, Number(ttl), poll);
  await Promise.all(servers.map((server) => server.ping()));

  const lock = locks(name);
  console.log('ready');
  for await (const line of createInterface({ input: process.stdin })) {
    await obey(line);
  }
  for (const server of servers) server.disconnect();

  async function obey(line) {
    const [order, first, ...rest] = line.split(' ');
    switch (order) {
      case 'try':
        return console.log((await lock.try()) ? 'held' : 'busy');
      case 'acquire':
        await lock.acquire();
        return console.log('held');
      case 'release':
        return console.log((await lock.release()) ? 'released' : 'not-held');
      case 'count':
        return console.log(`counted ${await count((poll) => locks(name, poll), redis, first, ...rest.map(Number))}`);
      case 'work':
        return tell(await work(locks, name, Number(first), rest[0] === 'apart', ...rest.slice(1).map(Number)));
      default:
        throw new Error(`what is ${line}?`);
    }
  }
}

async function tell(waits) {
  const lines = waits.map((its) => ['task', ...its].join(' '));
  if (!process.stdout.write(`${[...lines, 'worked'].join('\n')}\n`)) await once(process.stdout, 'drain');
}

main(process.argv.slice(2)).catch((error) => {
  console.log(`error ${error}`);
  process.exit(1);
});
