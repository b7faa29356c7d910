/**
 * What a user of a connection of ours relies on, for the runtimes that have one. Each scenario runs inside the runtime, with
 *
 * - `open(url)`: opens a connection to a server,
 * - `url` and `urls`: the server, and the ones that need something: `cluster`, `login`, `tls`,
 * - `order(...words)`: lets the test's process act on the server: `stop`, `restart`, `pause`, `resume`, or any command.
 */
import { LockManager } from 'leasehold';
import tour from '../programs/tour.js';

export const scenarios = {
  async 'the tour'({ open, url, order }) {
    const connection = open(url);
    await tour(connection, LockManager, () => order('FLUSHALL'));
    connection.close();
  },

  async 'a lock is handed over by message'({ open, url, order }) {
    const [one, other] = [open(url), open(url)];
    // Without a message, the waiter would ask again only after ten seconds.
    const [holder, waiter] = [one, other].map((connection) => new LockManager(connection, { claimWindow: '30s' }));
    await handOver(holder, waiter, order);
    check(Number(await order('CLIENT', 'KILL', 'TYPE', 'pubsub')) > 0, 'there is a subscription');
    await handOver(holder, waiter, order);
    await Promise.all([holder.close(), waiter.close()]);
    // The managers need no messages any more, so only the sockets for commands are left, and this one.
    await until(async () => await sockets(order) === 3);
    one.close();
    other.close();
    await until(async () => await sockets(order) === 1);
  },

  async 'two managers share a connection and its messages'({ open, url, order }) {
    const connection = open(url);
    const [holder, waiter] = [1, 2].map(() => new LockManager(connection, { claimWindow: '30s' }));
    await handOver(holder, waiter, order);
    await handOver(waiter, holder, order);
    await holder.close();
    await waiter.mutex('alone').run(() => {});
    await waiter.close();
    connection.close();
  },

  async 'a lease is lost when the server stops, and the connection comes back with it'({ open, url, order }) {
    const [one, other] = [open(url), open(url)];
    const [holder, waiter] = [one, other].map((connection) => new LockManager(connection, { claimWindow: '30s' }));
    await handOver(holder, waiter, order);
    const lease = await holder.mutex('lost').acquire({ ttl: '500ms' });
    await order('stop');
    check(await lease.lost === 'expired', 'the loss is told');
    const error = await holder.mutex('lost').acquire({ wait: '300ms' }).catch((error) => error);
    check(error.code === 'unreachable' && error.message.includes('127.0.0.1'), `no server: ${error.message}`);
    await order('restart');
    await handOver(holder, waiter, order);
    await Promise.all([holder.close(), waiter.close()]);
    one.close();
    other.close();
  },

  async 'a command that is out when the connection breaks fails at once and is not sent again'({ open, url, order }) {
    const connection = open(url);
    const out = failure(connection.call(['BLPOP', 'nobody', '0']));
    await until(async () => /blocked_clients:1/.test(await order('INFO', 'clients')));
    await order('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    check((await out).sent !== false, 'it may have run');
    await order('RPUSH', 'nobody', 'x');
    check(Number(await connection.call(['LLEN', 'nobody'])) === 1, 'nobody takes the element');
    connection.close();
  },

  async 'a command without a server is never sent'({ open, url, order }) {
    const connection = open(url);
    await connection.call(['PING']);
    await order('stop');
    await until(async () => (await failure(connection.call(['PING']))).sent === false);
    for (let i = 0; i < 3; i++) {
      const error = await failure(connection.call(['RPUSH', 'late', 'x']));
      check(error.sent === false && /can't connect to redis:\/\/127\.0\.0\.1:\d+/.test(error.message), `${error.message}`);
    }
    await order('restart');
    check(Number(await connection.call(['LLEN', 'late'])) === 0, 'nothing came late');
    connection.close();
  },

  async 'a backlog that never left is not applied later'({ open, url, order }) {
    const connection = open(url);
    await connection.call(['PING']);
    await order('pause');
    const backlog = Array.from({ length: 300 }, () => failure(connection.call(['RPUSH', 'late', 'x'.repeat(100_000)])));
    await order('stop');
    for (const error of await Promise.all(backlog)) check(error instanceof Error, `failed: ${error}`);
    await order('restart');
    check(Number(await connection.call(['LLEN', 'late'])) === 0, 'nothing came late');
    connection.close();
  },

  async 'numbers and text arrive as they are'({ open, url, order }) {
    const connection = open(url);
    const reply = await connection.call(['EVAL', "return {'9007199254740993', 9007199254740991, -1, false, ''}", '0']);
    check(reply.map(text).join() === '9007199254740993,9007199254740991,-1,null,', `${reply.map(text)}`);
    check((await connection.call(['EVAL', 'return {}', '0'])).length === 0, 'an empty list');
    const given = 'é\0"\r\n{}: 🔒';
    check(text(await connection.call(['EVAL', 'return ARGV[1]', '0', given])) === given, 'any text');
    const long = '🔒'.repeat(100_000);
    check(text(await connection.call(['EVAL', 'return ARGV[1]', '0', long])) === long, 'long text');
    check((await failure(connection.call(['EVALSHA', 'f'.repeat(40), '0']))).message.startsWith('NOSCRIPT '), 'a refusal');
    const many = await Promise.all(Array.from({ length: 500 }, (_, i) => connection.call(['EVAL', 'return ARGV[1]', '0', `${i}`])));
    check(many.map(text).every((word, i) => word === `${i}`), 'many at a time');

    await order('SET', 'leasehold:fence', '8999999999999998');
    const locks = new LockManager(connection);
    const lease = await locks.mutex('é\0 🔒').acquire();
    check(lease.fence === 8_999_999_999_999_999, `the exact fence: ${lease.fence}`);
    check((await locks.inspect('é\0 🔒')).lastFence === lease.fence, 'in inspect, too');
    check(await order('EXISTS', 'é\0 🔒') === 1, 'the name, byte for byte');
    await lease.release();
    await locks.close();
    connection.close();
  },

  async 'a cluster and replicas are refused'({ open, url, urls }) {
    const [cluster, single] = [open(urls.cluster), open(url)];
    const locks = new LockManager(cluster);
    const refused = await failure(locks.mutex('any').acquire());
    check(refused.code === 'unsupported' && /`cluster`.*single server/.test(refused.message), refused.message);
    await locks.close();
    const one = new LockManager(single);
    const replicas = await failure(one.mutex('any', { waitForReplicas: { min: 1, timeout: '1s' } }).acquire());
    check(replicas.code === 'unsupported', replicas.message);
    await one.close();
    cluster.close();
    single.close();
  },

  async 'it logs in and chooses a database'({ open, urls, order }) {
    const { host } = new URL(urls.login);
    const connection = open(`redis://worker:p%40ss@${host}/3`);
    const locks = new LockManager(connection);
    await locks.mutex('chosen').run(async () => {
      check(/name=.* db=3 /.test(text(await connection.call(['CLIENT', 'INFO']))), 'database 3');
      check(/user=worker /.test(text(await connection.call(['CLIENT', 'INFO']))), 'the user');
    });
    await locks.close();
    connection.close();
    const guest = open(`redis://guest@${host}`);
    check(/user=guest /.test(text(await guest.call(['CLIENT', 'INFO']))), 'a user without a password');
    guest.close();
    for (const login of ['worker:wrong@', '']) {
      const wrong = open(`redis://${login}${host}`);
      const locked = new LockManager(wrong);
      const error = await failure(locked.mutex('any').acquire({ wait: '300ms' }));
      check(error.code === 'auth' || /user name, the password/.test(error.message), error.message);
      check(!error.message.includes('wrong'), 'the password is not told');
      await locked.close();
      wrong.close();
    }
  },

  async 'it connects to an IPv6 address'({ open, urls }) {
    if (urls.ipv6 === undefined) return;
    const connection = open(urls.ipv6);
    check(text(await connection.call(['PING'])) === 'PONG', 'it answers');
    connection.close();
  },

  async 'it encrypts'({ open, urls }) {
    const connection = open(urls.tls);
    const locks = new LockManager(connection);
    await locks.mutex('encrypted').run(() => {});
    await locks.close();
    connection.close();
    const { host } = new URL(urls.tls);
    const plain = open(`redis://${host}`);
    check((await failure(plain.call(['PING']))) instanceof Error, 'a plain connection fails');
    plain.close();
  },

  async 'bad input is refused with its field, and a closed connection says so'({ open, url }) {
    for (const given of [undefined, null, 7, '', '127.0.0.1:6379', 'http://127.0.0.1', {}]) {
      const error = await failure(Promise.resolve().then(() => open(given)));
      check(error.code === 'invalid-option' && error.field === 'url', `${given}: ${error}`);
    }
    const connection = open(url);
    await connection.call(['PING']);
    connection.close();
    connection.close();
    check((await failure(connection.call(['PING']))).message === 'the connection was closed', 'it is closed');
  },
};

async function handOver(holder, waiter, order) {
  const lease = await holder.mutex('handed').acquire({ wait: '10s' });
  const waiting = waiter.mutex('handed').acquire({ wait: '20s' });
  await until(async () => (await holder.inspect('handed')).waiters.length === 1 && (await order('PUBSUB', 'CHANNELS')).length > 0);
  const began = performance.now();
  await lease.release();
  const next = await waiting;
  const took = performance.now() - began;
  check(next.fence > lease.fence && took < 5_000, `handed over after ${took} ms`);
  await next.release();
}

/** How many clients the server has. */
async function sockets(order) {
  return (await order('CLIENT', 'LIST')).trim().split('\n').length;
}

function check(right, what) {
  if (!right) throw new Error(`not as promised: ${what}`);
}

async function failure(promise) {
  return promise.then((value) => `no error: ${value}`, (error) => error);
}

async function until(condition) {
  for (const start = performance.now(); performance.now() - start < 10_000;) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`timed out waiting until ${condition}`);
}

function text(part) {
  return part instanceof Uint8Array ? new TextDecoder().decode(part) : part === null ? 'null' : String(part);
}
