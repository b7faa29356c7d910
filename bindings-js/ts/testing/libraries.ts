/** All versions of the supported client libraries, for one table of tests. */

import type { EventEmitter } from 'node:events';

import type { Redis as IoRedis5 } from 'ioredis-5';
import type { Redis as IoRedis6 } from 'ioredis-6';

import type { Link } from '../connections/index.js';
import type { Connection, NodeRedisConnection } from '../index.js';

/** Makes a connected client, as a user of the library would. */
export interface Opened {
  readonly client: Connection;
  /** Sends one command with the library's own method. */
  run(...args: string[]): Promise<unknown>;
  close(): Promise<unknown>;
}

export interface Library {
  readonly name: string;
  /** Whether the library's clients emit events. Then the tests can count listeners. */
  readonly emits: boolean;
  /** With a certificate, it connects over TLS and trusts that. */
  open(port: number, ca?: string): Promise<Opened>;
}

// Imported on use, so that a process that needs one library does not load all of them.
const TESTED = {
  ioredis: [
    ioRedis('ioredis 5', async (options) => new (await import('ioredis-5')).Redis(options)),
    ioRedis('ioredis 6', async (options) => new (await import('ioredis-6')).Redis(options)),
  ],
  'node-redis': [
    nodeRedis('node-redis 4', async (options) => (await import('redis-4')).createClient(options)),
    nodeRedis('node-redis 5', async (options) => (await import('redis-5')).createClient(options)),
    nodeRedis('node-redis 6', async (options) => (await import('redis-6')).createClient(options)),
  ],
  glide: [{
    name: 'GLIDE 2',
    emits: false,
    open: async (port, ca) => {
      const { GlideClient, Logger } = await import('@valkey/valkey-glide');
      Logger.init('off');
      const client = await GlideClient.createClient({
        addresses: [{ host: '127.0.0.1', port }],
        connectionBackoff: { numberOfRetries: 5, factor: 10, exponentBase: 2 },
        ...(ca !== undefined && { useTLS: true, advancedConfiguration: { tlsAdvancedConfiguration: { rootCertificates: ca } } }),
      });
      return { client, run: (...args) => client.customCommand(args), close: async () => client.close() };
    },
  }],
  // A library of ours that has no tests does not compile.
} satisfies Record<Exclude<Link['library'], 'custom' | 'memory'>, readonly Library[]>;

export const libraries: readonly Library[] = Object.values(TESTED).flat();

/** What the manual and the messages call them. */
export const libraryNames: readonly string[] = Object.keys(TESTED);

type IoRedisOptions = { host: string; port: number; retryStrategy: () => number; tls?: { ca: string } };

function ioRedis(name: string, create: (options: IoRedisOptions) => Promise<IoRedis5 | IoRedis6>): Library {
  return {
    name,
    emits: true,
    open: async (port, ca) => {
      const client = await create({ host: '127.0.0.1', port, retryStrategy: () => 20, ...(ca !== undefined && { tls: { ca } }) });
      client.on('error', ignore);
      await client.ping();
      return { client, run: (name, ...args) => client.call(name ?? '', ...args), close: async () => client.disconnect() };
    },
  };
}

type NodeRedisClient = EventEmitter & NodeRedisConnection & {
  connect(): Promise<unknown>;
  disconnect(): unknown;
  sendCommand(args: string[]): Promise<unknown>;
};

type Address = { host: string; port: number; reconnectStrategy: () => number };
type Options = { socket: Address | (Address & { tls: true; ca: string }) };

function nodeRedis(name: string, create: (options: Options) => Promise<unknown>): Library {
  return {
    name,
    emits: true,
    open: async (port, ca) => {
      const address = { host: '127.0.0.1', port, reconnectStrategy: () => 20 };
      const client = (await create({ socket: ca === undefined ? address : { ...address, tls: true, ca } })) as NodeRedisClient;
      client.on('error', ignore);
      await client.connect();
      return { client, run: (...args) => client.sendCommand(args), close: async () => client.disconnect() };
    },
  };
}

function ignore(): void {}
