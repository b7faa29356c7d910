// A connection provider for the lock component (`wit/connection.wit`) in JavaScript, with ioredis.
import { Redis } from 'ioredis';

// A command is sent at most once: ioredis resends nothing after the connection breaks. Without a connection, a
// command fails at once.
const ONCE = { lazyConnect: true, autoResendUnfulfilledCommands: false, autoResubscribe: false, maxRetriesPerRequest: 0 };

export class Endpoint {
  #url;
  #timeout;
  #redis;
  #subscriptions = new Set();

  static async open(servers, responseTimeoutMs) {
    if (servers.tag !== 'single') throw { tag: 'unsupported', val: 'this provider supports only single servers' };
    const endpoint = new Endpoint();
    endpoint.#url = servers.val;
    endpoint.#timeout = Number(responseTimeoutMs);
    endpoint.#redis = await endpoint.#connect({ retryStrategy: () => 50 });
    return endpoint;
  }

  async call(command) {
    const [name, ...words] = command.map((word) => Buffer.from(word));
    if (this.#redis.status !== 'ready') throw { tag: 'unavailable', val: `the connection is ${this.#redis.status}` };
    try {
      return reply(await this.#redis.callBuffer(name.toString(), ...words));
    } catch (error) {
      throw failure(error);
    }
  }

  async subscribe(channel) {
    const redis = await this.#connect({ retryStrategy: null });
    this.#subscriptions.add(redis);
    redis.once('end', () => this.#subscriptions.delete(redis));
    const messages = payloads(redis);
    try {
      await redis.subscribe(channel);
    } catch (error) {
      redis.disconnect();
      throw failure(error);
    }
    return messages;
  }

  [Symbol.dispose]() {
    for (const redis of [this.#redis, ...this.#subscriptions]) redis.disconnect();
  }

  async #connect(options) {
    const timeouts = { connectTimeout: this.#timeout, commandTimeout: this.#timeout };
    const redis = new Redis(this.#url, { ...ONCE, ...timeouts, ...options });
    let cause;
    redis.on('error', (error) => { cause = error; });
    try {
      await redis.connect();
      return redis;
    } catch (error) {
      redis.disconnect();
      cause ??= error;
      throw /^(WRONGPASS|NOAUTH)/.test(cause.message)
        ? { tag: 'refused', val: cause.message }
        : { tag: 'unavailable', val: cause.message };
    }
  }
}

/** The messages that arrive on a subscribed connection from now on, until it ends or the reader stops. */
function payloads(redis) {
  const waiting = [];
  let wake = () => {};
  redis.on('messageBuffer', (_channel, payload) => { waiting.push(payload); wake(); });
  redis.once('end', () => { waiting.push(null); wake(); });
  return (async function* messages() {
    try {
      for (;;) {
        while (waiting.length === 0) await new Promise((resolve) => { wake = resolve; });
        const payload = waiting.shift();
        if (payload === null) return;
        yield new Uint8Array(payload);
      }
    } finally {
      redis.disconnect();
    }
  })();
}

function reply(value) {
  if (!Array.isArray(value)) return { tag: 'single', val: scalar(value) };
  if (value.some(Array.isArray)) return { tag: 'other', val: 'an array in an array' };
  return { tag: 'array', val: value.map(scalar) };
}

function scalar(value) {
  if (value === null) return { tag: 'nil' };
  if (typeof value === 'number') return { tag: 'integer', val: BigInt(value) };
  return { tag: 'text', val: new Uint8Array(Buffer.from(value)) };
}

/** Why a call got no reply. If that is not certain, the command may have run. */
function failure(error) {
  if (error.name === 'ReplyError') return { tag: 'refused', val: error.message };
  if (error.message === 'Command timed out') return { tag: 'timed-out' };
  return { tag: 'interrupted', val: error.message };
}
