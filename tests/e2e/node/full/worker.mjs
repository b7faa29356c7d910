// A Worker. In a request it opens sockets, makes managers over them, and runs the tour.
import { connect } from 'cloudflare:sockets';
import { LockManager } from 'leasehold';
import quorum from '../programs/quorum.js';
import tour from '../programs/tour.js';
import { parse } from './resp.mjs';

/** Two mistakes that programs make: a manager that is made in module scope, and one that is made in a request and kept there. */
const early = thrown(() => new LockManager({ call: async () => null }));
let kept;

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/early') return Response.json(told(early));
    if (pathname === '/quorum-without-its-module') {
      const connections = env.PORTS.map((port) => new Connection(port));
      const error = await LockManager.quorum(connections).catch((error) => error);
      for (const connection of connections) connection.close();
      return Response.json(told(error));
    }
    if (pathname === '/kept') {
      kept ??= new LockManager(new Connection(env.PORTS[0]));
      return Response.json(await use(kept));
    }
    const connections = env.PORTS.map((port) => new Connection(port));
    const [connection] = connections;
    try {
      await tour(connection, LockManager, () => connection.call(['FLUSHALL']));
      // Late, so that a request before this one has no engine of quorums. Programs import it as the other modules.
      await import('leasehold/quorum');
      await quorum(connections, LockManager);
      return new Response('toured');
    } catch (error) {
      return new Response(`${error.stack}`, { status: 500 });
    } finally {
      for (const connection of connections) connection.close();
    }
  },
};

/** Takes and releases a lock, and returns the outcome or the error. */
async function use(locks) {
  try {
    const lease = await locks.mutex('kept').acquire({ wait: '5s' });
    return { outcome: await lease.release() };
  } catch (error) {
    return told(error);
  }
}

function thrown(act) {
  try {
    act();
  } catch (error) {
    return error;
  }
}

function told({ code, message }) {
  return { code, message };
}

/** The simplest connection: one socket for commands, and another one for messages. */
class Connection {
  #port;
  #commands;
  #subscription;

  constructor(port) {
    this.#port = port;
    this.#commands = new Wire(port);
  }

  call(args) {
    return this.#commands.call(args);
  }

  async subscribe(channel, onMessage) {
    const wire = new Wire(this.#port, ([kind, , payload]) => kind === 'message' && onMessage(payload));
    this.#subscription = wire;
    await wire.call(['SUBSCRIBE', channel]);
    return () => wire.close();
  }

  close() {
    this.#commands.close();
    this.#subscription?.close();
  }
}

/** The part of the RESP protocol that locks need, over one socket. */
class Wire {
  #socket;
  #writer;
  #waiting = [];
  #text = '';
  #encoder = new TextEncoder();

  constructor(port, onPush) {
    this.#socket = connect({ hostname: '127.0.0.1', port });
    this.#writer = this.#socket.writable.getWriter();
    this.#read(onPush).catch((error) => this.#end(error));
  }

  call(args) {
    const frame = `*${args.length}\r\n${args.map((arg) => `$${this.#encoder.encode(arg).length}\r\n${arg}\r\n`).join('')}`;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#writer.write(this.#encoder.encode(frame)).catch(reject);
    });
  }

  close() {
    this.#socket.close().catch(() => {});
  }

  async #read(onPush) {
    const reader = this.#socket.readable.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return this.#end(new Error('the connection is closed'));
      this.#text += value;
      for (let parsed = parse(this.#text, 0); parsed; parsed = parse(this.#text, 0)) {
        this.#text = this.#text.slice(parsed.end);
        const { value } = parsed;
        const waiting = this.#waiting.shift();
        if (!waiting) onPush?.(value);
        else if (value instanceof Error) waiting.reject(value);
        else waiting.resolve(value);
      }
    }
  }

  #end(error) {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}
