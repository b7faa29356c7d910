/** Tests servers that enforce the slots of a cluster at one address. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { type Connection, type CustomConnection, isLeaseholdError, LockManager, type LockManagerOptions, Owner } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS, IMPATIENT } from '../testing/generous.js';
import { libraries } from '../testing/libraries.js';
import { Server } from '../testing/server.js';
import { keyOfFirst, startCluster, startEnforcingSlots } from '../testing/topologies.js';
import { VirtualTime } from '../testing/virtual-time.js';
import { PROBE } from './servers.generated.js';

const fleet = await Fleet.start();
const server = await startEnforcingSlots({ after });
const CROSSSLOT = "CROSSSLOT Keys in request don't hash to the same slot";

const isQuestion = (args: string[]): boolean => args[0] === 'EVAL' && args[1] === PROBE[1];

/** A custom connection to a server. It notes what is sent, and fails as `refuses` says. */
async function custom(
  server: Server, refuses: (args: string[]) => Error | undefined = () => undefined, isCluster?: boolean,
): Promise<{ sent: string[][]; connection: CustomConnection; close(): void }> {
  const { Redis } = await import('ioredis-6');
  const [redis, sent] = [new Redis(server.port, '127.0.0.1', { retryStrategy: () => null }), [] as string[][]];
  const call = async (args: string[]): Promise<unknown> => {
    sent.push(args);
    const refusal = refuses(args);
    return refusal === undefined ? redis.call(args[0] ?? '', ...args.slice(1)) : Promise.reject(refusal);
  };
  return { sent, connection: isCluster === undefined ? { call } : { call, isCluster }, close: () => redis.disconnect() };
}

/** The first call of every kind. */
const KINDS: [string, (locks: LockManager, name: string) => Promise<unknown>][] = [
  ['mutex', async (locks, name) => (await locks.mutex(name).acquire()).release()],
  ['try', async (locks, name) => (await locks.mutex(name).tryAcquire())?.release() ?? assert.fail('free')],
  ['read', async (locks, name) => (await locks.readWrite(name).read().acquire()).release()],
  ['reentrant', async (locks, name) => (await locks.reentrant(name, new Owner()).acquire()).release()],
  ['semaphore', async (locks, name) => (await locks.semaphore(name, { limit: 2 }).acquire()).release()],
  ['several names', async (locks, name) => (await locks.multi([`${name}:1`, `${name}:2`]).acquire()).release()],
  ['a try of several', async (locks, name) => (await locks.multi([`${name}:1`, `${name}:2`]).tryAcquire())?.release() ?? assert.fail('free')],
  ['one script', async (locks, name) => (await locks.multi([`{${name}}:1`, `{${name}}:2`], { oneScript: true }).acquire()).release()],
  ['many', async (locks, name) => Promise.all([1, 2, 3].map(async (at) => (await locks.mutex(`${name}:${at}`).acquire()).release()))],
  ['once', async (locks, name) => locks.once(name, async () => 'done', {})],
  ['observe', async (locks, name) => {
    for await (const leader of locks.election(name).observe()) return assert.equal(leader, null);
  }],
  ['inspect', async (locks, name) => locks.inspect(name)],
  ['force', async (locks, name) => locks.forceRelease(name)],
];

test('the_first_lock_of_every_kind_is_granted_where_one_address_enforces_slots', async () => {
  for (const library of libraries.filter(({ name }) => ['ioredis 6', 'node-redis 6', 'GLIDE 2'].includes(name))) {
    const { client, run, close } = await library.open(server.port);
    for (const [kind, use] of KINDS) {
      const locks = new LockManager(client, GENEROUS);
      await assert.doesNotReject(use(locks, unique()), `${library.name}: ${kind}`);
      await locks.close();
    }
    const locks = new LockManager(client, { ...GENEROUS, clusterSlots: true });
    const together = await caught(locks.multi(['one', 'other'], { oneScript: true }).acquire());
    assert.ok(isLeaseholdError(together, 'cross-slot'), String(together));
    await locks.close();
    assert.equal(await run('EXISTS', 'leasehold:fence').then(Number), 0, `${library.name}: each slot has its own counter`);
    await close();
  }
});

test('a_custom_connection_finds_out_or_is_told', async () => {
  for (const [isCluster, options, asks] of [[undefined, {}, 1], [true, {}, 1], [undefined, { clusterSlots: true }, 1]] as [boolean | undefined, LockManagerOptions, number][]) {
    const { connection, sent, close } = await custom(server, undefined, isCluster);
    const locks = new LockManager(connection, { ...GENEROUS, ...options });
    for (let round = 0; round < 2; round++) await (await locks.mutex(unique()).acquire()).release();
    assert.equal(sent.filter(isQuestion).length, asks);
    await locks.close();
    close();
  }
  // Two clients that decided in their own ways have the same counter.
  const [one, other] = [await custom(server), await custom(server, undefined, true)];
  const [first, second] = [new LockManager(one.connection, GENEROUS), new LockManager(other.connection, GENEROUS)];
  let last = 0n;
  for (let round = 0; round < 4; round++) {
    const lease = await (round % 2 === 0 ? first : second).mutex('door').acquire();
    assert.ok(BigInt(lease.fence) > last);
    last = BigInt(lease.fence);
    await lease.release();
  }
  await Promise.all([first.close(), second.close()]);
  one.close();
  other.close();
});

test('the_option_is_refused_where_the_server_takes_keys_of_different_slots', async () => {
  // A command that left before the answer might take the lock.
  let scripts = 0;
  const call = async (args: string[]): Promise<unknown> => {
    if (args[0] === 'EVALSHA') scripts += 1;
    return fleet.client().call(args[0] ?? '', ...args.slice(1));
  };
  for (const [connection, options, field] of [[{ call }, { clusterSlots: true }, 'clusterSlots'], [{ call, isCluster: true }, {}, 'connection']] as [Connection, LockManagerOptions, string][]) {
    const name = unique();
    const locks = new LockManager(connection, { ...GENEROUS, ...options });
    const errors = await Promise.all([locks.mutex(name).acquire(), locks.inspect(name), locks.mutex(unique()).tryAcquire()].map(caught));
    for (const error of [...errors, await caught(locks.mutex(name).acquire())]) {
      assert.ok(isLeaseholdError(error, 'invalid-option') && 'field' in error && error.field === field && /leave it out/.test(error.message), String(error));
    }
    await locks.close();
    assert.ok(!(await fleet.isThere(name)));
    assert.equal(scripts, 0);
  }
  assert.throws(() => new LockManager(new MemoryServer(), { clusterSlots: true }), /clusterSlots/);
  assert.throws(() => new LockManager(fleet.client(), { clusterSlots: 1 as never }), /clusterSlots/);
  assert.ok(isLeaseholdError(await caught(LockManager.quorum([], { clusterSlots: true })), 'invalid-option'));
});

test('a_manager_that_is_refused_leaves_no_listener_on_the_client', async (t) => {
  const { Redis } = await import('ioredis-6');
  const client = new Redis({ lazyConnect: true, sentinels: [{ host: '127.0.0.1', port: 1 }], name: 'primary' });
  t.after(() => client.disconnect());
  const listeners = (): unknown[] => client.eventNames().map((event) => [event, client.listenerCount(event)]);
  const before = listeners();
  assert.throws(() => new LockManager(client, { clusterSlots: true }), /clusterSlots/);
  assert.deepEqual(listeners(), before);
});

test('a_client_that_logs_in_late_learns_about_slots_then', async () => {
  for (const options of [{}, { clusterSlots: true }] as LockManagerOptions[]) {
    const refusal = new Error('NOAUTH Authentication required.');
    let isLoggedIn = false;
    const { connection, close } = await custom(server, () => (isLoggedIn ? undefined : refusal));
    const locks = new LockManager(connection, { ...GENEROUS, ...options });
    for (let tries = 0; tries < 8; tries++) {
      const error = await caught(locks.mutex('late').acquire());
      assert.ok(isLeaseholdError(error, 'auth') && error.cause === refusal, String(error));
    }
    isLoggedIn = true;
    assert.equal(await (await locks.mutex('late').acquire()).release(), 'released');
    assert.equal(await connection.call(['EXISTS', 'leasehold:fence']), 0, 'each slot has its own counter');
    await locks.close();
    close();
  }
});

test('another_answer_says_nothing', async () => {
  // A missing right: without slots, and the option is refused.
  const refuses = (args: string[]): Error | undefined => (isQuestion(args) ? new Error("NOPERM this user has no permissions to run the 'eval' command") : undefined);
  for (const [options, code, text] of [[{}, 'unsupported', /did not show that at first/], [{ clusterSlots: true }, 'invalid-option', /NOPERM/]] as [LockManagerOptions, 'unsupported', RegExp][]) {
    const { connection, close } = await custom(server, refuses);
    const locks = new LockManager(connection, { ...GENEROUS, ...options });
    const error = await caught(locks.mutex('a').tryAcquire());
    assert.ok(isLeaseholdError(error, code) && text.test(error.message), String(error));
    await locks.close();
    close();
  }
  // A server that is not ready, or a connection that breaks: it is asked again.
  for (const failure of ['LOADING Redis is loading the dataset in memory', 'the connection broke']) {
    let asked = 0;
    const { connection, close } = await custom(server, (args) => (isQuestion(args) && ++asked <= 2 ? new Error(failure) : undefined));
    const locks = new LockManager(connection, GENEROUS);
    // Two commands leave with questions that have no answer, and fail for their keys. They are sent again.
    await (await locks.mutex('b').tryAcquire() ?? assert.fail('free')).release();
    assert.equal(asked, 3);
    await locks.close();
    close();
  }
});

/** A connection through a proxy that swallows some commands. While the server has none to answer, `passing` lets time pass. */
function swallowing(time: VirtualTime, connection: CustomConnection, swallows: (args: string[]) => boolean): { connection: CustomConnection; passing<T>(promise: Promise<T>): Promise<T> } {
  let open = 0;
  const call = async (args: string[]): Promise<unknown> => {
    if (swallows(args)) return new Promise(() => {});
    open += 1;
    return connection.call(args).finally(() => (open -= 1));
  };
  const passing = async <T>(promise: Promise<T>): Promise<T> => {
    let isSettled = false;
    const settled = (): void => void (isSettled = true);
    promise.then(settled, settled);
    await until(async () => isSettled || (open === 0 && (await time.pass(10_000, 10_000)), isSettled));
    return promise;
  };
  return { connection: { call }, passing };
}

test('a_question_without_an_answer_in_time_is_asked_again', async (t) => {
  const time = new VirtualTime(t);
  for (const [options, silent] of [[{}, 1], [{ clusterSlots: true }, 1], [{}, 30], [{ clusterSlots: true }, 30]] as [LockManagerOptions, number][]) {
    const { connection, close } = await custom(server);
    let [asked, sent] = [0, 0];
    const { passing, connection: lossy } = swallowing(time, connection, (args) => {
      if (isQuestion(args)) asked += 1;
      // One question is lost on its way, or the whole server doesn't answer.
      return silent === 1 ? isQuestion(args) && asked === 1 : ++sent <= silent;
    });
    const locks = new LockManager(lossy, { ...GENEROUS, wait: 'forever', ...options });
    const name = unique();
    assert.equal(await passing((await passing(locks.mutex(name).acquire())).release()), 'released');
    await passing((await passing(locks.mutex(name).acquire())).release());
    assert.equal(asked, 2);
    await locks.close();
    close();
  }
});

test('a_script_that_left_before_the_answer_is_sent_again_for_the_slots', async () => {
  // The first question has no answer yet, and perhaps `INFO` has none. The second one goes with `EVAL`, as the server doesn't have the script.
  for (const infoBreaks of [false, true]) {
    for (const [kind, use] of KINDS) {
      let [asked, hidden, infos] = [0, 1, infoBreaks ? 1 : 0];
      const { connection, sent, close } = await custom(server, (args) => {
        if (isQuestion(args)) return ++asked === 1 ? new Error('LOADING Redis is loading the dataset in memory') : undefined;
        if (args[0] === 'INFO' && infos-- > 0) return new Error('the connection broke');
        return args[0] === 'EVALSHA' && hidden-- > 0 ? new Error('NOSCRIPT No matching script') : undefined;
      });
      const locks = new LockManager(connection, GENEROUS);
      await assert.doesNotReject(use(locks, unique()), `${kind}: ${sent.map(([name]) => name).join(' ')}`);
      assert.equal(asked, 2, `${kind}: ${sent.map(([name]) => name).join(' ')}`);
      await locks.close();
      close();
    }
  }
});

test('a_proxy_that_never_answers_the_question_is_asked_a_few_times', async (t) => {
  const time = new VirtualTime(t);
  const { connection, close } = await custom(fleet.server);
  let asked = 0;
  const { passing, connection: lossy } = swallowing(time, connection, (args) => isQuestion(args) && (asked += 1) > 0);
  const locks = new LockManager(lossy, { ...GENEROUS, wait: 'forever' });
  for (let round = 0; round < 8; round++) {
    const lease = await passing(locks.mutex(unique()).acquire());
    // If the server lacks the script, two commands wait for questions, and the release may take too long.
    const error = await passing(caught(lease.release().then(() => Promise.reject(null))));
    assert.ok(error === null || (round === 0 && isLeaseholdError(error, 'unreachable')), String(error));
  }
  assert.ok(asked <= 8, `${asked}`);
  await locks.close();
  close();
});

test('a_server_that_is_down_at_first_is_no_proxy_that_refuses_the_question', async () => {
  for (const failure of ['the gateway has no server', 'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.']) {
    let isDown = true;
    const { connection, sent, close } = await custom(server, () => (isDown ? new Error(failure) : undefined));
    const locks = new LockManager(connection, IMPATIENT);
    await until(async () => {
      const error = await caught(locks.mutex('down').tryAcquire());
      assert.ok(isLeaseholdError(error, 'unreachable'), String(error));
      return sent.length > 60;
    });
    isDown = false;
    await (await locks.mutex('down').acquire()).release();
    await locks.close();
    close();
  }
});

test('without_a_confirmation_of_the_option_nothing_is_granted_and_the_error_says_why', async () => {
  // Each question breaks the connection. Another command would not.
  for (const [isCluster, options] of [[undefined, { clusterSlots: true }], [true, {}]] as [boolean | undefined, LockManagerOptions][]) {
    let isBroken = true;
    const { connection, sent, close } = await custom(server, (args) => (isBroken && (isQuestion(args) || args[0] === 'INFO') ? new Error('the proxy closed the connection') : undefined), isCluster);
    const locks = new LockManager(connection, { ...IMPATIENT, ...options });
    let why = '';
    await until(async () => {
      for (const error of await Promise.all([locks.mutex('door').tryAcquire(), locks.inspect('door')].map(caught))) {
        assert.ok(isLeaseholdError(error, 'unreachable') && error.retryable, String(error));
        why = error.message;
      }
      return sent.filter(isQuestion).length > 6 && /has not said whether it enforces the slots of a cluster: .*the proxy closed the connection/.test(why);
    });
    assert.ok(!sent.some(([name]) => name === 'EVALSHA'));
    isBroken = false;
    await locks.mutex('door').acquire();
    await locks.close();
    close();
  }
});

test('a_plain_connection_to_one_node_of_a_cluster_is_refused_before_the_first_lock', async (t) => {
  const nodes = await startCluster(t);
  const name = await keyOfFirst(nodes);
  for (const library of libraries.filter(({ name }) => ['ioredis 6', 'node-redis 6', 'GLIDE 2'].includes(name))) {
    for (const options of [{}, { clusterSlots: true }]) {
      const { client, close } = await library.open(nodes[0].port);
      const locks = new LockManager(client, { ...GENEROUS, ...options });
      const errors = await Promise.all([locks.mutex(name).acquire(), locks.inspect(name), locks.mutex('other').tryAcquire()].map(caught));
      for (const error of [...errors, await caught(locks.mutex(name).acquire())]) {
        assert.ok(isLeaseholdError(error, 'unsupported') && /the server belongs to a cluster; pass the client library's cluster client: MOVED /.test(error.message), `${library.name}: ${String(error)}`);
      }
      assert.equal(Number(await nodes[0].run('EXISTS', name)), 0);
      await locks.close();
      await close();
    }
  }
});

test('a_node_of_a_cluster_that_is_down_is_asked_again_before_a_lock_is_granted', async () => {
  const { connection, close } = await custom(server, (args) => (isQuestion(args) ? new Error(CROSSSLOT) : undefined));
  let read = 0;
  const call = (args: string[]): Promise<unknown> => {
    if (args[0] !== 'GET') return connection.call(args);
    read += 1;
    return Promise.reject(new Error(read <= 32 ? 'CLUSTERDOWN The cluster is down' : 'MOVED 866 127.0.0.1:7001'));
  };
  const locks = new LockManager({ call }, GENEROUS);
  const error = await caught(locks.mutex('door').acquire());
  assert.ok(isLeaseholdError(error, 'unsupported') && /belongs to a cluster/.test(error.message), String(error));
  await locks.close();
  close();
});

test('a_client_that_takes_few_commands_at_once_is_asked_about_nodes_bit_by_bit', async () => {
  const { createClient } = await import('redis-6');
  const client = createClient({ socket: { host: '127.0.0.1', port: server.port }, commandsQueueMaxLength: 4 });
  client.on('error', () => {});
  await client.connect();
  const locks = new LockManager(client, IMPATIENT);
  await (await locks.mutex('few').acquire({ wait: '10s' })).release();
  await locks.close();
  client.destroy();
});

test('one_node_with_all_slots_grants_locks_to_a_plain_connection', async () => {
  const { client, close } = await (libraries.find(({ name }) => name === 'ioredis 6') ?? assert.fail()).open(server.port);
  const locks = new LockManager(client, GENEROUS);
  for (const name of ['one', 'other']) await (await locks.mutex(name).acquire()).release();
  await locks.close();
  await close();
});

test('a_proxy_that_closes_the_connection_at_info_is_still_asked_about_slots', async () => {
  const { connection, close } = await custom(server, (args) => (args[0] === 'INFO' ? new Error('the connection broke') : undefined));
  let broken = false;
  const call = async (args: string[]): Promise<unknown> => {
    // What travels with `INFO` is lost, too.
    if (args[0] === 'INFO') broken = true;
    await Promise.resolve();
    if (!broken) return connection.call(args);
    setImmediate(() => (broken = false));
    throw new Error('the connection broke');
  };
  const locks = new LockManager({ call }, GENEROUS);
  await (await locks.mutex('a').acquire()).release();
  await locks.close();
  close();
});

test('an_endless_answer_about_the_clock_is_shortened_in_the_error', async () => {
  for (const words of ['', "can't run this command or subcommand "]) {
    const call = (args: string[]): Promise<unknown> => Promise.resolve(isQuestion(args) ? `NOCLOCK ${words}${'x'.repeat(1_000_000)}` : '');
    const locks = new LockManager({ call }, GENEROUS);
    const error = await caught(locks.mutex('a').acquire());
    assert.ok(isLeaseholdError(error, words === '' ? 'unsupported' : 'auth') && error.message.length < 2_000, String(error).slice(0, 300));
    await locks.close();
  }
});

test('a_connection_whose_server_is_known_is_not_asked', async () => {
  const sent: string[][] = [];
  const call = (args: string[]): Promise<unknown> => {
    sent.push(args);
    return args[0] === 'INFO' ? Promise.resolve('') : Promise.reject(new Error(CROSSSLOT));
  };
  const managers: [Connection, LockManagerOptions][] = [[{ call, isCluster: false }, {}], [{ call }, { clusterSlots: false }]];
  for (const [connection, options] of managers) {
    const locks = new LockManager(connection, options);
    assert.ok(isLeaseholdError(await caught(locks.mutex('a').tryAcquire()), 'unsupported'));
    await locks.close();
  }
  assert.ok(!sent.some(isQuestion));
});

test('a_server_that_begins_to_refuse_its_clock_is_unsupported_and_the_librarys_error_is_the_cause', async () => {
  let refusal: Error | undefined;
  const { connection, close } = await custom(fleet.server, ([name]) => (name === 'EVALSHA' ? refusal : undefined));
  const locks = new LockManager(connection, GENEROUS);
  await (await locks.mutex(unique()).acquire()).release();
  refusal = new Error('NOCLOCK ERR Unknown Redis command called from script');
  const error = await caught(locks.mutex(unique()).acquire());
  assert.ok(isLeaseholdError(error, 'unsupported') && /\+pexpiretime/.test(error.message), String(error));
  assert.equal(error.cause, refusal);
  refusal = undefined;
  await locks.close();
  close();
});

test('a_server_that_refuses_time_in_scripts_grants_locks_and_one_without_another_clock_is_unsupported', async () => {
  for (const [options, code] of [
    [['--user', 'default', 'on', 'nopass', '~*', '&*', '+@all', '-time'], undefined],
    [['--rename-command', 'TIME', '', '--rename-command', 'PEXPIRETIME', ''], 'unsupported'],
    [['--user', 'default', 'on', 'nopass', '~*', '&*', '+@all', '-time', '-pexpiretime'], 'auth'],
  ] as [string[], 'auth' | undefined][]) {
    await using refusing = await Server.start(...options);
    const { connection, close } = await custom(refusing);
    const locks = new LockManager(connection, GENEROUS);
    if (code === undefined) {
      const lease = await locks.mutex('a').acquire();
      assert.equal(await lease.release(), 'released');
      const next = await locks.mutex('a').acquire();
      assert.ok(next.fence > lease.fence);
      assert.equal(await next.verify(), true);
      await next.release();
      assert.equal((await locks.inspect('a')).holders.length, 0);
    } else {
      const error = await caught(locks.mutex('a').acquire());
      assert.ok(isLeaseholdError(error, code), String(error));
    }
    await locks.close();
    close();
  }
});
