/** A cluster client of node-redis 4, 5 or 6 (`createCluster`). It follows redirections and never resends commands by itself. */

import { ignore } from '../support/ignore.js';
import { closed, messageOf, toFailed, toReply, unavailable } from './results.js';
import type { CallResult, DedicatedConnection, DedicatedOptions, Failed, Link, SubscriptionListener } from './link.js';
import { COMMAND_OPTIONS, failedBy, type NodeRedis, openDedicated, openPubSub } from './node-redis.js';
import { pickNode } from './dedicated.js';
import { type PubSubConnection, type PubSubListener, Subscriber } from './subscriber.js';

/** The part of a cluster client that is used here, in any version of the library. */
export interface NodeRedisCluster {
  /** Version 4 doesn't have it. */
  readonly isOpen?: boolean;
  /** Empty before it is connected. */
  readonly masters: readonly { readonly client?: NodeRedis | Promise<NodeRedis> }[];
  nodeClient(node: object): NodeRedis | Promise<NodeRedis>;
  sendCommand(key: string | undefined, isReadonly: boolean, args: string[], options: object): Promise<unknown>;
}

/** Why this cluster can't be used; undefined if it can. */
export function nodeRedisClusterProblem(cluster: NodeRedisCluster): string | undefined {
  return isConnected(cluster) ? undefined : 'is a node-redis cluster that is not connected: await its `connect()` first';
}

function isConnected({ isOpen, masters }: NodeRedisCluster): boolean {
  return isOpen !== false && masters.length > 0;
}

/** How long a command may wait for a node that is connecting: see `ReadyGate`. */
const READY_TIMEOUT_MS = 1000;
// Read once, because fake timers may replace it.
const timeoutSignal = AbortSignal.timeout?.bind(AbortSignal);

export class NodeRedisClusterLink implements Link {
  readonly library = 'node-redis';
  readonly isCluster = true;
  readonly #cluster: NodeRedisCluster;
  readonly #subscriber: Subscriber;

  constructor(cluster: NodeRedisCluster) {
    this.#cluster = cluster;
    this.#subscriber = new Subscriber((listener) => openPubSubAtNode(cluster, listener));
  }

  async call(args: readonly string[]): Promise<CallResult> {
    // Version 4 has no `isOpen`. All versions have no nodes for a moment while they reload them.
    if (this.#cluster.isOpen === false) return closed('the node-redis cluster was closed');
    if (!isConnected(this.#cluster)) return unavailable('the node-redis cluster is not connected');
    // Removes the command from a node's queue, but does nothing once it is written. Version 4 and later ones name this option differently.
    const signal = timeoutSignal(READY_TIMEOUT_MS);
    try {
      const options = { ...COMMAND_OPTIONS, signal, abortSignal: signal };
      return { reply: toReply(await this.#cluster.sendCommand(keyOf(args), false, [...args], options)) };
    } catch (error) {
      return neverWritten(error) ?? failedBy(error);
    }
  }

  subscribe(channel: string, listener: SubscriptionListener): void {
    this.#subscriber.subscribe(channel, listener);
  }

  unsubscribe(channel: string): void {
    this.#subscriber.unsubscribe(channel);
  }

  async openDedicated({ closeOn, moved }: DedicatedOptions): Promise<DedicatedConnection> {
    return openDedicated(await someNode(this.#cluster), closeOn, moved);
  }

  async close(): Promise<void> {
    this.#subscriber.close();
  }

  ref(alive: boolean): void {
    this.#subscriber.ref(alive);
  }
}

/** The key that selects the node. For a script it is the first key. */
function keyOf([command, first, keys, key]: readonly string[]): string | undefined {
  if (command !== 'EVALSHA' && command !== 'EVAL') return first;
  return keys === '0' ? undefined : key;
}

function neverWritten(error: unknown): Failed | undefined {
  return messageOf(error) === 'The command was aborted' ? unavailable("the key's node is not connected", error) : undefined;
}

async function someNode(cluster: NodeRedisCluster): Promise<NodeRedis> {
  const node = pickNode(cluster.masters, ({ client }) => client !== undefined && 'isReady' in client && client.isReady);
  if (node === undefined) throw new Error('the cluster has no connected node');
  return cluster.nodeClient(node);
}

/** Subscribes at any node, because every node receives all messages. */
function openPubSubAtNode(cluster: NodeRedisCluster, listener: PubSubListener): PubSubConnection {
  let closed = false;
  let alive = false;
  const open = async (): Promise<PubSubConnection> => {
    const client = await someNode(cluster);
    if (closed) throw new Error('the subscription ended');
    const pubSub = openPubSub(client, listener);
    pubSub.ref(alive);
    return pubSub;
  };
  const opened = Promise.resolve().then(open);
  opened.catch((error) => listener.ended(toFailed(error)));
  return {
    subscribe: (channel) => opened.then((pubSub) => pubSub.subscribe(channel), toFailed),
    unsubscribe: (channel) => opened.then((pubSub) => pubSub.unsubscribe(channel)),
    close: () => {
      closed = true;
      opened.then((pubSub) => pubSub.close(), ignore);
    },
    ref: (stay) => {
      alive = stay;
      opened.then((pubSub) => pubSub.ref(alive), ignore);
    },
  };
}
