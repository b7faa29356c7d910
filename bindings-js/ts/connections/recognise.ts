/** The connections that a manager accepts. Recognises each by its methods, because several versions and copies of a library may be loaded. */

import { InvalidOptionError, isLeaseholdError } from '../support/errors.js';
import { openLink } from '../support/in-memory.js';
import { type CustomConnection, CustomLink } from './custom.js';
import { type Glide, GlideLink, glideProblem } from './glide.js';
import { IoRedisLink, ioRedisProblem } from './ioredis.js';
import { IoRedisSentinelLink } from './ioredis-sentinel.js';
import type { IoRedis } from './ioredis-types.js';
import { LeavingLink } from './leaving.js';
import type { Link } from './link.js';
import { type NodeRedisCluster, NodeRedisClusterLink, nodeRedisClusterProblem } from './node-redis-cluster.js';
import { type NodeRedis, NodeRedisLink, nodeRedisProblem } from './node-redis.js';

/** Any function. */
type Method = (...args: never[]) => unknown;

/** A `Redis` or a `Cluster` of ioredis 5 or 6. */
export interface IoRedisConnection {
  readonly status: string;
  readonly callBuffer: Method;
  readonly sendCommand: Method;
  readonly duplicate: Method;
  readonly on: Method;
  readonly off: Method;
}

/** A client that node-redis's `createClient` makes. The similar result of its `createSentinel` is not accepted. */
export interface NodeRedisConnection {
  readonly getSentinelNode?: never;
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly sendCommand: Method;
  readonly duplicate: Method;
  readonly on: Method;
  readonly off: Method;
}

/** A cluster that node-redis's `createCluster` makes. */
export interface NodeRedisClusterConnection {
  readonly masters: readonly object[];
  readonly sendCommand: Method;
  readonly nodeClient: Method;
}

/** A `GlideClient` or a `GlideClusterClient` of `@valkey/valkey-glide`. */
export interface GlideConnection {
  readonly customCommand: Method;
  readonly close: Method;
}

/** A server in memory, for tests: `new MemoryServer()` of `leasehold/testing`. */
export interface InMemoryConnection {
  readonly clock: object;
  readonly stop: Method;
  readonly start: Method;
  readonly flush: Method;
  readonly dropNextReply: Method;
}

/** A client for a server that refuses scripts: `withoutScripts(client)` of `leasehold/without-scripts`. */
export interface ScriptlessConnection {
  readonly client: object;
  readonly refusesScripts: true;
}

/**
 * A client of ioredis, node-redis or GLIDE, or a {@link CustomConnection} of your own; in tests, a `MemoryServer` of
 * `leasehold/testing`.
 */
export type Connection =
  | IoRedisConnection
  | NodeRedisConnection
  | NodeRedisClusterConnection
  | GlideConnection
  | InMemoryConnection
  | ScriptlessConnection
  // A function also has a `call`, but is not a connection.
  | (CustomConnection & { readonly bind?: never });

/**
 * Makes the adapter for a connection.
 *
 * Throws `invalid-option` with the field `connection` for an unknown object, and for a client that is closed or takes no commands.
 */
export function recognise(connection: unknown): Link {
  try {
    return linkOf(connection);
  } catch (cause) {
    if (isLeaseholdError(cause)) throw cause;
    // A getter or a proxy threw.
    throw new InvalidOptionError('connection', `can't be read; it ${EXPECTED}`, { cause });
  }
}

function linkOf(connection: unknown): Link {
  if (opensLink(connection)) return connection[openLink](recognise);
  if (isIoRedis(connection)) return usable(ioRedisProblem(connection), () => linkOfIoRedis(connection));
  if (isNodeRedisCluster(connection)) return usable(nodeRedisClusterProblem(connection), () => new NodeRedisClusterLink(connection));
  if (isNodeRedis(connection)) return usable(nodeRedisProblem(connection), () => new LeavingLink(new NodeRedisLink(connection), () => NodeRedisLink.own(connection)));
  if (isGlide(connection)) return usable(glideProblem(connection), () => new GlideLink(connection));
  if (isCustom(connection)) return new CustomLink(connection);
  throw new InvalidOptionError('connection', unknown(connection));
}

function linkOfIoRedis(client: IoRedis): Link {
  if (client.isCluster === true) return new IoRedisLink(client);
  if (client.options?.sentinels != null) return new IoRedisSentinelLink(client);
  return new LeavingLink(new IoRedisLink(client), () => IoRedisLink.own(client));
}

function usable(problem: string | undefined, make: () => Link): Link {
  if (problem !== undefined) throw new InvalidOptionError('connection', problem);
  return make();
}

function isIoRedis(connection: unknown): connection is IoRedis {
  return (
    has(connection, 'callBuffer', 'sendCommand', 'duplicate', 'on', 'off') &&
    'status' in connection &&
    typeof connection.status === 'string'
  );
}

/** Version 4.2 or newer. A sentinel client of node-redis looks similar, but its methods take other arguments. */
function isNodeRedis(connection: unknown): connection is NodeRedis {
  return (
    has(connection, 'sendCommand', 'duplicate', 'subscribe', 'on', 'off') &&
    'isReady' in connection &&
    typeof connection.isReady === 'boolean' &&
    !has(connection, 'getSentinelNode')
  );
}

function isNodeRedisCluster(connection: unknown): connection is NodeRedisCluster {
  return has(connection, 'sendCommand', 'nodeClient') && 'masters' in connection && Array.isArray(connection.masters);
}

function isGlide(connection: unknown): connection is Glide {
  return has(connection, 'customCommand', 'close');
}

function opensLink(connection: unknown): connection is { [openLink](recognise: (connection: unknown) => Link): Link } {
  return typeof connection === 'object' && connection !== null && typeof (connection as Record<symbol, unknown>)[openLink] === 'function';
}

/** An object with `call`. Other objects of a library, such as a pipeline or a class, are not custom connections. */
function isCustom(connection: unknown): connection is CustomConnection {
  return typeof connection === 'object' && has(connection, 'call') && !has(connection, 'sendCommand');
}

const EXPECTED = 'must be an ioredis, node-redis or GLIDE client, or an object with a `call(args)` function';

function unknown(connection: unknown): string {
  if (typeof connection === 'string' || connection instanceof URL) return `${EXPECTED}, not an address: connect a client first`;
  if (Array.isArray(connection)) return `${EXPECTED}, not a list: a manager uses one server; \`LockManager.quorum\` takes a list`;
  if (typeof connection === 'function') return `${EXPECTED}, not a class or a function: create a client first`;
  if (has(connection, 'send_command', 'internal_send_command')) return `${EXPECTED}; a client of node-redis 3 can't be used: use ioredis, or node-redis 4.2 or newer`;
  if (has(connection, 'exec', 'sendCommand')) return `${EXPECTED}, not a pipeline`;
  if (has(connection, 'sendCommand', 'execute')) return `${EXPECTED}; a node-redis pool can't be used: one client is enough for any load`;
  if (has(connection, 'sendCommand', 'getSentinelNode')) return `${EXPECTED}; a node-redis sentinel can't be used: use ioredis for Sentinel`;
  if (has(connection, 'pipeline', 'exec', 'evalsha')) return `${EXPECTED}; for @upstash/redis, pass \`upstashConnection(redis)\` of \`leasehold/upstash\``;
  if (has(connection, 'send', 'duplicate', 'getBuffer')) return `${EXPECTED}; for Bun, pass \`bunConnection(url)\` of \`leasehold/bun\``;
  if (has(connection, 'duplicate', 'defineCommand')) return `${EXPECTED}, not a mock: in a test, use \`MemoryServer\` of \`leasehold/testing\``;
  if (has(connection, 'then')) return `${EXPECTED}, not a promise: await it first`;
  return EXPECTED;
}

function has<Name extends string>(value: unknown, ...names: Name[]): value is Record<Name, (...args: never[]) => unknown> {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false;
  return names.every((name) => typeof (value as Record<string, unknown>)[name] === 'function');
}
