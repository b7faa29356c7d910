/** The client libraries that leasehold works with, each in every version, for one table of tests. */

import type { EventEmitter } from 'node:events';

import { GlideClient, Logger } from '@valkey/valkey-glide';
import { Redis as IoRedis5 } from 'ioredis-5';
import { Redis as IoRedis6 } from 'ioredis-6';
import { createClient as createClient4 } from 'redis-4';
import { createClient as createClient5 } from 'redis-5';
import { createClient as createClient6 } from 'redis-6';

/** A connected client, as a user of the library would make it. */
export interface Opened {
  readonly client: object;
  /** One command by the library's own means. */
  run(...args: string[]): Promise<unknown>;
  close(): Promise<unknown>;
}

export interface Library {
  readonly name: string;
  /** Whether its clients emit events, so that listeners can be counted. */
  readonly emits: boolean;
  open(port: number): Promise<Opened>;
}

Logger.init('off');

export const libraries: readonly Library[] = [
  ioRedis('ioredis 5', (port) => new IoRedis5(port, '127.0.0.1', { retryStrategy: () => 20 })),
  ioRedis('ioredis 6', (port) => new IoRedis6(port, '127.0.0.1', { retryStrategy: () => 20 })),
  nodeRedis('node-redis 4', createClient4),
  nodeRedis('node-redis 5', createClient5),
  nodeRedis('node-redis 6', createClient6),
  {
    name: 'GLIDE 2',
    emits: false,
    open: async (port) => {
      const client = await GlideClient.createClient({
        addresses: [{ host: '127.0.0.1', port }],
        connectionBackoff: { numberOfRetries: 5, factor: 10, exponentBase: 2 },
      });
      return { client, run: (...args) => client.customCommand(args), close: async () => client.close() };
    },
  },
];

function ioRedis(name: string, create: (port: number) => IoRedis5 | IoRedis6): Library {
  return {
    name,
    emits: true,
    open: async (port) => {
      const client = create(port);
      client.on('error', ignore);
      await client.ping();
      return { client, run: (name, ...args) => client.call(name ?? '', ...args), close: async () => client.disconnect() };
    },
  };
}

interface NodeRedisClient extends EventEmitter {
  connect(): Promise<unknown>;
  disconnect(): unknown;
  sendCommand(args: string[]): Promise<unknown>;
}

type Options = { socket: { host: string; port: number; reconnectStrategy: () => number } };

function nodeRedis(name: string, create: (options: Options) => unknown): Library {
  return {
    name,
    emits: true,
    open: async (port) => {
      const client = create({ socket: { host: '127.0.0.1', port, reconnectStrategy: () => 20 } }) as NodeRedisClient;
      client.on('error', ignore);
      await client.connect();
      return { client, run: (...args) => client.sendCommand(args), close: async () => client.disconnect() };
    },
  };
}

function ignore(): void {}
