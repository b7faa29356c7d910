/**
 * `leasehold/upstash`: a connection to Upstash's REST API, with the address and the token of a client of `@upstash/redis`.
 *
 * It sends its own requests, because the client's `request` sends a command up to six times, decodes bytes as text, and returns an
 * aborted request as a reply.
 */

import { type CustomConnection, InvalidOptionError } from '../index.js';

/** A `Redis` of `@upstash/redis`, for Node, Cloudflare or Fastly. */
export interface UpstashClient {
  readonly exec: (...args: never[]) => unknown;
  readonly pipeline: (...args: never[]) => unknown;
}

/** The address and the token of a database, as the Upstash console shows them. */
export interface UpstashAddress {
  /** The REST URL: `https://....upstash.io`. */
  readonly url: string;
  /** The REST token. The read-only token can't take locks. */
  readonly token: string;
}

/**
 * A connection for `new LockManager(...)` over HTTP. It needs no `close`.
 *
 * HTTP brings no messages, so waiters poll: a hand-over takes longer, and each poll is one command. `waitForReplicas` is refused.
 *
 * It uses only the address and the token of a client, and not its retries, timeout, deserialization or pipelines.
 *
 * @throws {InvalidOptionError} if there is no address or no token.
 *
 * @example
 * ```ts
 * import { Redis } from '@upstash/redis';
 * import { upstashConnection } from 'leasehold/upstash';
 *
 * const locks = new LockManager(upstashConnection(Redis.fromEnv()));
 * ```
 */
export function upstashConnection(redis: UpstashClient | UpstashAddress): CustomConnection {
  const { url, authorization } = read(redis);
  // A database takes keys of different slots in one call. Asking would cost money, as each command does.
  return { call: (args) => post(url, authorization, args), isCluster: false };
}

/** The parts that are read of the client's own HTTP client. */
interface HttpClient {
  readonly baseUrl?: unknown;
  readonly headers?: { readonly authorization?: unknown };
}

function read(redis: unknown): { url: string; authorization: string } {
  const { client, url, token } = (redis ?? {}) as { client?: HttpClient; url?: unknown; token?: unknown };
  if (client == null) return { url: checkUrl(url), authorization: `Bearer ${checkToken(token)}` };
  if (client.baseUrl === undefined) {
    throw new InvalidOptionError('redis', 'must have its own HTTP client, not a requester of yours: pass `{ url, token }`');
  }
  const [, given] = /^Bearer (.*)$/s.exec(String(client.headers?.authorization)) ?? [];
  return { url: checkUrl(client.baseUrl), authorization: `Bearer ${checkToken(given)}` };
}

function checkUrl(url: unknown): string {
  if (typeof url === 'string' && /^https?:\/\/[^\s/]+/.test(url) && URL.canParse(url)) {
    const { username, password } = new URL(url);
    if (username === '' && password === '') return url;
    // `fetch` refuses it with an error that quotes the password.
    throw new InvalidOptionError('url', 'must have no user name and no password: the token is the login');
  }
  throw new InvalidOptionError('url', 'must be the REST URL of the database, such as `https://name.upstash.io`');
}

function checkToken(token: unknown): string {
  // Without a token, the client writes `Bearer undefined`.
  if (typeof token === 'string' && /^[\x21-\x7e]+$/.test(token) && token !== 'undefined') return token;
  throw new InvalidOptionError('token', 'must be the REST token of the database');
}

/** How long a request may take. Longer than the engine waits for a reply, so this only frees the socket. */
const LONGEST_REQUEST_MS = 30_000;

async function post(url: string, authorization: string, args: readonly string[]): Promise<unknown> {
  const { host } = new URL(url);
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json', 'upstash-encoding': 'base64' },
    ...bodyOf(JSON.stringify(args)),
    // To follow a redirect would send the command again.
    redirect: 'manual',
    signal: AbortSignal.timeout(LONGEST_REQUEST_MS),
  }).catch((error: unknown) => {
    throw new Error(`no reply from the REST API at ${host}: ${reasonOf(error)}`, { cause: error });
  });
  const text = await response.text();
  const { result, error } = parse(text);
  if (error === undefined && result !== undefined && response.ok) return decode(result);
  // The server's own words. An error of a gateway is no answer of the server: the command may have run.
  if (typeof error === 'string' && response.status < 500) throw new Error(withCode(error, response.status));
  throw new Error(`the REST API at ${host} answered with HTTP status ${response.status}: ${error ?? text.slice(0, 200)}`);
}

/** Node hides the reason of a failed request in the error's cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error && error.cause.message !== '' ? error.cause.message : error.message;
}

/** Deno's `fetch` sends a `POST` again when the connection breaks before the answer, except if its body is a stream. */
function bodyOf(text: string): { body: string | ReadableStream; duplex?: 'half' } {
  return 'Deno' in globalThis ? { body: new Blob([text]).stream(), duplex: 'half' } : { body: text };
}

function parse(text: string): { result?: unknown; error?: unknown } {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === 'object' && body !== null ? body : {};
  } catch {
    return {};
  }
}

/** The engine recognises a server's error by its code. */
function withCode(error: string, status: number): string {
  if (/^[A-Z][A-Z0-9_]+ /.test(error)) return error;
  return `${status === 401 || status === 403 ? 'NOAUTH' : 'ERR'} ${error}`;
}

/** Strings arrive in base64, except for `OK`. */
function decode(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(decode);
  if (typeof value !== 'string' || value === 'OK') return value;
  try {
    return Uint8Array.from(atob(value), (byte) => byte.charCodeAt(0));
  } catch {
    // A proxy that ignores the encoding.
    return value;
  }
}
