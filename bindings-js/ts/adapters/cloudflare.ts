/** `leasehold/cloudflare`: a connection over `cloudflare:sockets`, the TCP sockets of Cloudflare Workers. */

import { connect, type Socket } from 'cloudflare:sockets';

import { InvalidOptionError } from '../index.js';
import { encodeCommand, ErrorReply, RespReader, type RespValue } from './resp.js';
import { checkMode, messageOf, OnDemandConnection, Refusal, type ServerConnection, type Transport, type TransportEvents } from './server-connection.js';

export type { ServerConnection };

/**
 * A connection for `new LockManager(...)` in a Cloudflare Worker. Make it inside the request, and close it at the end of the request,
 * after the manager: `connection.close()`. It opens one socket, and a second one when a caller waits.
 *
 * `url` is `redis://user:password@host:6379/0`, or `rediss://...` for TLS with a certificate that Cloudflare trusts. The server is a
 * single one: a cluster is refused with `unsupported`, and so is `waitForReplicas`.
 *
 * @throws {InvalidOptionError} for another URL.
 *
 * @example
 * ```ts
 * import { cloudflareConnection } from 'leasehold/cloudflare';
 *
 * const connection = cloudflareConnection(env.REDIS_URL);
 * const locks = new LockManager(connection);
 * ```
 */
export function cloudflareConnection(url: string): ServerConnection {
  const target = parseUrl(url);
  return new OnDemandConnection(target.name, (events) => new SocketTransport(target, events));
}

interface Target {
  readonly hostname: string;
  readonly port: number;
  readonly secureTransport: 'on' | 'off';
  readonly login: readonly string[];
  readonly database: string;
  /** The address without the password. */
  readonly name: string;
}

function parseUrl(url: unknown): Target {
  const parts = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined;
  if (parts === undefined || !/^rediss?:$/.test(parts.protocol) || parts.hostname === '') {
    throw new InvalidOptionError('url', 'must be a URL such as `redis://user:password@host:6379/0`, or `rediss://...` for TLS');
  }
  const { protocol, hostname, port, username, password, pathname } = parts;
  const database = pathname.replace(/^\//, '') || '0';
  if (!/^\d{1,5}$/.test(database)) throw new InvalidOptionError('url', 'must end with the number of a database, such as `/0`, or with nothing');
  return {
    // An IPv6 address keeps its brackets: without them, `connect` looks for a host of that name.
    hostname,
    port: Number(port || 6379),
    secureTransport: protocol === 'rediss:' ? 'on' : 'off',
    // A user may have no password.
    login: username === '' && password === '' ? [] : ['AUTH', decoded(username) || 'default', decoded(password)],
    database,
    name: `${protocol}//${hostname}:${port || 6379}`,
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

class SocketTransport implements Transport {
  readonly opened: Promise<unknown>;
  readonly #events: TransportEvents;
  readonly #socket: Socket;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  /** The calls that wait for their reply, oldest first. */
  readonly #waiting: Waiting[] = [];
  #subscribes = false;
  #ended: Error | undefined;

  constructor({ hostname, port, secureTransport, login, database, name }: Target, events: TransportEvents) {
    this.#events = events;
    this.#socket = connect({ hostname, port }, { secureTransport, allowHalfOpen: false });
    this.#writer = this.#socket.writable.getWriter();
    this.#writer.closed.catch(() => {});
    // The reason of a failed attempt is here, and nowhere else.
    this.#socket.opened.catch((error: unknown) => this.#end(error));
    this.#socket.closed.then(() => this.#end(new Error('the server closed the connection')), (error: unknown) => this.#end(error));
    void this.#read();
    this.opened = this.#logIn(name, login, database);
  }

  send(args: readonly string[]): Promise<unknown> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#writer.write(encodeCommand(args)).catch((error: unknown) => this.#end(error));
    });
  }

  subscribe(channel: string): Promise<unknown> {
    this.#subscribes = true;
    return this.send(['SUBSCRIBE', channel]);
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.send(['UNSUBSCRIBE', channel]);
  }

  close(): void {
    this.#end(new Error('the connection was closed'));
    this.#socket.close().catch(() => {});
  }

  /** Logs in, and asks for RESP2, in which messages are lists. */
  async #logIn(name: string, login: readonly string[], database: string): Promise<void> {
    const replies = [this.send(['HELLO', '2', ...login])];
    if (database !== '0') replies.push(this.send(['SELECT', database]));
    try {
      const [hello] = await Promise.all(replies);
      checkMode(field(hello, 'mode'), name);
    } catch (error) {
      throw error instanceof ErrorReply ? new Refusal(error.message) : error;
    }
  }

  async #read(): Promise<void> {
    const replies = new RespReader();
    const reader = this.#socket.readable.getReader();
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return this.#end(new Error('the server closed the connection'));
        for (const reply of replies.push(value)) this.#take(reply);
      }
    } catch (error) {
      this.#end(error);
    }
  }

  #take(reply: RespValue): void {
    if (this.#subscribes && Array.isArray(reply) && reply.length === 3 && textOf(reply[0]) === 'message') {
      this.#events.message(textOf(reply[1]), textOf(reply[2]));
      return;
    }
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#end(new Error('the server sent a reply that nobody asked for'));
    else if (reply instanceof ErrorReply) waiting.reject(reply);
    else waiting.resolve(reply);
  }

  #end(error: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = error instanceof Error ? error : new Error(messageOf(error));
    for (const { reject } of this.#waiting.splice(0)) reject(this.#ended);
    this.#events.ended(this.#ended);
    this.#socket.close().catch(() => {});
  }
}

interface Waiting {
  resolve(reply: RespValue): void;
  reject(error: Error): void;
}

/** A field of a reply that lists names and values in turn. */
function field(reply: unknown, name: string): string | undefined {
  if (!Array.isArray(reply)) return undefined;
  const at = reply.findIndex((part, index) => index % 2 === 0 && textOf(part) === name);
  return at < 0 ? undefined : textOf(reply[at + 1]);
}

const decoder = new TextDecoder();

function textOf(part: unknown): string {
  return part instanceof Uint8Array ? decoder.decode(part) : String(part);
}
