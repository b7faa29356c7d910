// A proxy that speaks Upstash's REST protocol in front of a real server, and breaks it on demand.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Redis } from 'ioredis';

const TOKEN = 'the-token';

/** A fault: the command runs, and its reply is lost. */
export async function lose(response, run) {
  await run();
  response.destroy();
}

/** Starts a proxy on loopback. It ends with `stop`. */
export async function startUpstash(server) {
  const redis = new Redis(server.port, { retryStrategy: () => 20 });
  redis.on('error', () => {});
  const proxy = {
    token: TOKEN,
    /** The commands that have arrived, each time that they did. */
    seen: [],
    /** How to answer the next commands instead: functions of the response and of what runs the command, or undefined for no fault. */
    faults: [],
    stop: async () => {
      redis.disconnect();
      http.closeAllConnections();
      http.close();
    },
  };

  async function run([name, ...args]) {
    try {
      return { result: await redis.callBuffer(name, ...args) };
    } catch ({ message }) {
      return { error: message };
    }
  }

  async function answer(request, response) {
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) text += chunk;
    const send = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (request.headers.authorization !== `Bearer ${TOKEN}`) return send(401, { error: 'WRONGPASS invalid or missing auth token' });
    const encode = request.headers['upstash-encoding'] === 'base64' ? toBase64 : toText;
    const body = JSON.parse(text);
    if (request.url === '/pipeline') {
      proxy.seen.push(...body);
      return send(200, (await Promise.all(body.map(run))).map(({ result, error }) => (error ? { error } : { result: encode(result) })));
    }
    proxy.seen.push(body);
    const fault = proxy.faults.shift();
    if (fault !== undefined) return fault(response, () => run(body));
    const { result, error } = await run(body);
    return error === undefined ? send(200, { result: encode(result) }) : send(400, { error });
  }

  const http = createServer((request, response) => answer(request, response).catch((error) => response.destroy(error)));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  proxy.url = `http://127.0.0.1:${http.address().port}`;
  return proxy;
}

function toBase64(value) {
  if (Array.isArray(value)) return value.map(toBase64);
  if (!Buffer.isBuffer(value)) return value;
  return value.toString() === 'OK' ? 'OK' : value.toString('base64');
}

function toText(value) {
  if (Array.isArray(value)) return value.map(toText);
  return Buffer.isBuffer(value) ? value.toString() : value;
}
