/**
 * ioredis 5 and 6, a single server, Sentinel or a Cluster.
 *
 * Keys are sent as the engine names them: the client's `keyPrefix` is passed over, since clients in other languages would
 * not see it (leasehold's own `prefix` option is for that). So are `commandTimeout` and `enableAutoPipelining`: the engine
 * has its own time for an answer, and commands of one tick leave in one write anyway.
 */

import { serverText, textOf, toFailed, toReply, unavailable } from './answer.js';
import { Flights } from './flights.js';
import { Hold } from './hold.js';
import type { CallResult, Failed, Link, SubscriptionListener } from './link.js';
import { type Channel, Subscriber } from './subscriber.js';
import { watch } from './watch.js';

/** What is used of a client, whichever version of the library made it. */
export interface IoRedis {
  readonly status: string;
  readonly isCluster?: boolean;
  readonly mode?: string;
  readonly stream?: Stream | null;
  connect(): Promise<unknown>;
  disconnect(): void;
  callBuffer(name: string, ...args: readonly string[]): unknown;
  sendCommand(command: Command, stream?: Pick<Stream, 'write'>): unknown;
  duplicate(options: object): IoRedis;
  nodes?(role: 'all'): IoRedis[];
  subscribe(channel: string): Promise<unknown>;
  on(event: string, listener: (...args: never[]) => void): unknown;
  off(event: string, listener: (...args: never[]) => void): unknown;
}

/** The library's own object for a command on its way. */
interface Command {
  name: string;
  args: unknown[];
  reject(error: unknown): void;
  setTimeout(ms: number): void;
  toWritable?(): string;
}

interface Stream {
  write(data: string | Uint8Array): unknown;
  ref(): void;
  unref(): void;
}

interface Flight {
  place: number;
  readonly command: Command;
  settle(result: CallResult): void;
}

/** Why this client can't be used, if it can't. */
export function ioRedisProblem(client: IoRedis): string | undefined {
  if (client.status === 'end') return 'is an ioredis client that was closed: bring an open one';
  const problem = wrongMode(client);
  return problem === undefined ? undefined : `is an ioredis client ${problem}`;
}

function wrongMode(client: IoRedis): string | undefined {
  if (client.mode === 'subscriber') return 'in subscriber mode, which takes no commands: bring one that does not subscribe';
  if (client.mode === 'monitor') return 'in monitor mode, which takes no commands: bring another one';
  return undefined;
}

export class IoRedisLink implements Link {
  readonly library = 'ioredis';
  readonly send?: (wire: string) => Promise<CallResult>;
  readonly #client: IoRedis;
  readonly #inFlight = new Flights<Flight>();
  readonly #hold = new Hold();
  readonly #subscriber: Subscriber;
  readonly #unwatch: () => void;
  readonly #gather: Gather | undefined;
  #outgoing: Flight[] = [];

  constructor(client: IoRedis) {
    this.#client = client;
    this.#gather = client.isCluster === true ? undefined : new Gather(client);
    // A cluster has to see the key.
    if (client.isCluster !== true) this.send = (wire) => this.#run(() => written(client, wire));
    this.#subscriber = new Subscriber((channel, listener) => openChannel(client, channel, listener));
    this.#unwatch = watch(client, {
      ready: () => this.#hold.end(true),
      close: () => this.#interrupt(),
      end: () => this.#hold.end(false),
    });
  }

  call(args: readonly string[]): Promise<CallResult> {
    return this.#run(() => mint(this.#client, args));
  }

  subscribe(channel: string, listener: SubscriptionListener): void {
    this.#subscriber.subscribe(channel, listener);
  }

  unsubscribe(): void {
    this.#subscriber.unsubscribe();
  }

  async close(): Promise<void> {
    this.#unwatch();
    this.#subscriber.unsubscribe();
    this.#hold.end(false);
    this.#interrupt();
  }

  ref(alive: boolean): void {
    this.#subscriber.ref(alive);
  }

  #run(make: () => Command): Promise<CallResult> {
    return this.#client.status === 'ready' ? this.#send(make) : this.#sendOnceConnected(make);
  }

  async #sendOnceConnected(make: () => Command): Promise<CallResult> {
    if (this.#client.status === 'end') return unavailable('the ioredis client was closed');
    if (this.#client.status === 'wait') this.#client.connect().catch(ignore);
    if (await this.#hold.wait()) return this.#send(make);
    return unavailable(`the ioredis client is not connected (${this.#client.status})`);
  }

  #send(make: () => Command): Promise<CallResult> {
    const problem = wrongMode(this.#client);
    if (problem !== undefined) return Promise.resolve({ failure: { kind: 'unsupported', text: `the client is ${problem}` } });
    return new Promise((resolve) => {
      const flight: Flight = {
        place: -1,
        command: make(),
        settle: (result) => {
          if (this.#inFlight.delete(flight)) resolve(result);
        },
      };
      this.#inFlight.add(flight);
      if (this.#outgoing.push(flight) === 1) process.nextTick(() => this.#flush());
    });
  }

  /** ioredis writes each command by itself: here those of one tick, and of the promises it resolves, leave together. */
  #flush(): void {
    const flights = this.#outgoing.filter((flight) => this.#inFlight.has(flight));
    this.#outgoing = [];
    if (this.#client.status !== 'ready') {
      for (const { settle } of flights) settle(unavailable(`the ioredis client is not connected (${this.#client.status})`));
      return;
    }
    for (const flight of flights) this.#dispatch(flight);
    this.#gather?.flush();
  }

  #dispatch(flight: Flight): void {
    const { command, settle } = flight;
    try {
      // What is answered may be a promise of its own, if somebody traces the commands.
      Promise.resolve(this.#client.sendCommand(command, this.#gather?.begin())).then(
        (value) => settle({ reply: toReply(numbers(value)) }),
        (error) => settle(failedBy(error)),
      );
    } catch (error) {
      settle(failedBy(error));
    }
    if (this.#client.isCluster === true) noResend(flight);
  }

  /** The connection broke. ioredis would send again what was out, however late. */
  #interrupt(): void {
    for (const flight of this.#inFlight.all()) {
      defuse(flight.command);
      flight.settle({ failure: { kind: 'interrupted', text: 'the connection broke before the answer' } });
    }
  }
}

/** What commands are written to instead of the socket, so that they leave in one piece. */
class Gather {
  readonly #client: IoRedis;
  #text: string | undefined;

  constructor(client: IoRedis) {
    this.#client = client;
  }

  /** From here to `flush` nothing else may run: what others write would come before, and take our answers. */
  begin(): this {
    this.#text ??= '';
    return this;
  }

  flush(): void {
    const text = this.#text;
    this.#text = undefined;
    if (text !== undefined && text !== '') this.#client.stream?.write(text);
  }

  /** The library's to call; after a reconnect, too, when it sends again what it has left. */
  write(data: string | Uint8Array): void {
    if (this.#text !== undefined && typeof data === 'string') this.#text += data;
    else this.#client.stream?.write(data);
  }
}

/** Has the library make its object for a command, without its options and without sending it. */
function mint(client: IoRedis, args: readonly string[]): Command {
  const [name = '', ...rest] = args;
  const bare = { options: {}, sendCommand: (command: Command) => command };
  // A lower-case name, since older versions find the keys, and so the slot, by that only.
  const command = client.callBuffer.call(bare as unknown as IoRedis, name.toLowerCase(), ...rest) as Command;
  command.setTimeout = ignore;
  return command;
}

/** A command of few words that is written as the engine put it together: the library would take longer than all else. */
function written(client: IoRedis, wire: string): Command {
  let type = types.get(client);
  if (type === undefined) {
    type = mint(client, ['EVALSHA']).constructor as CommandType;
    types.set(client, type);
  }
  const command = new type('evalsha', [], { replyEncoding: null });
  command.setTimeout = ignore;
  command.toWritable = () => wire;
  return command;
}

type CommandType = new (name: string, args: string[], options: object) => Command;

/** The library's class of commands, by client: several versions may be loaded. */
const types = new WeakMap<IoRedis, CommandType>();

/** Whoever still sends this command sends a harmless one. */
function defuse(command: Command): void {
  command.name = 'ping';
  command.args = [];
  // Its class has one that goes by the words.
  delete command.toWritable;
}

/** A cluster client follows redirections, which is right, and sends again what a broken connection left open, which is not. */
function noResend(flight: Flight): void {
  const { command } = flight;
  const decide = command.reject;
  command.reject = (error) => {
    if (serverText(error) !== undefined) return decide.call(command, error);
    defuse(command);
    flight.settle(failedBy(error));
  };
}

function failedBy(error: unknown): Failed {
  const text = textOf(error);
  if (text.includes('enableOfflineQueue')) return unavailable(text, error);
  if (text === 'Command timed out') return { failure: { kind: 'timed-out' }, cause: error };
  return toFailed(error);
}

/** Strings come as bytes, so whatever is a string here is a number that the client's `stringNumbers` made one. */
function numbers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(numbers);
  return typeof value === 'string' ? Number(value) : value;
}

/** How a subscriber differs from the client that it is made after. Everything else, such as credentials, is the same. */
const SUBSCRIBER = {
  lazyConnect: true,
  // The engine decides when it is tried again, and then anew.
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
  reconnectOnError: null,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: true,
  enableAutoPipelining: false,
  maxRetriesPerRequest: null,
  commandTimeout: undefined,
  socketTimeout: undefined,
  keyPrefix: '',
  keepAlive: 10_000,
  monitor: false,
  readOnly: false,
  himportFieldsets: undefined,
};

function openChannel(client: IoRedis, channel: string, listener: SubscriptionListener): Channel {
  const subscriber = template(client).duplicate(SUBSCRIBER);
  let alive = false;
  let lastError: unknown;
  const ref = (): void => {
    if (alive) subscriber.stream?.ref();
    else subscriber.stream?.unref();
  };
  const broken = (error: unknown): void => {
    const { failure, cause } = error === undefined ? unavailable('the subscription ended') : toFailed(error);
    listener.broken(failure, cause);
  };
  subscriber.on('error', (error: unknown) => (lastError = error));
  subscriber.on('connecting', () => setImmediate(ref));
  subscriber.on('connect', ref);
  subscriber.on('end', () => broken(lastError));
  subscriber.on('message', (from: string, payload: string) => {
    if (from === channel) listener.message(payload);
  });
  subscriber
    .connect()
    .then(() => subscriber.subscribe(channel))
    .then(() => listener.acknowledged(), (error) => broken(serverText(error) === undefined ? (lastError ?? error) : error));
  return {
    close: () => subscriber.disconnect(),
    ref: (stay) => {
      alive = stay;
      ref();
    },
  };
}

/** In a cluster a message reaches every node, so that any one will do to listen at. */
function template(client: IoRedis): IoRedis {
  if (client.isCluster !== true) return client;
  const nodes = client.nodes?.('all') ?? [];
  const node = nodes[Math.floor(Math.random() * nodes.length)];
  if (node === undefined) throw new Error('the cluster has no node yet');
  return node;
}

function ignore(): void {}
