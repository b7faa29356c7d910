/** Tests which servers are accepted, and that the check costs no round trip. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, LockManager } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS } from '../testing/generous.js';
import { VirtualTime } from '../testing/virtual-time.js';
import { deleteIfEqualOf, versionProblem } from './version.js';

const fleet = await Fleet.start();

/** A connection to the real server that answers `INFO` as the test says. */
function tellingVersion(info: () => unknown): { sent: string[]; manager: LockManager } {
  const [redis, sent] = [fleet.client(), [] as string[]];
  const call = async ([name = '', ...args]: string[]): Promise<unknown> => {
    sent.push(name);
    return name === 'INFO' ? info() : redis.call(name, ...args);
  };
  return { sent, manager: new LockManager({ call }, GENEROUS) };
}

const INFO = (version: string): string => `# Server\r\nredis_version:${version}\r\nos:Linux\r\n`;

test('a_server_too_old_is_refused_with_the_versions_found_and_needed_and_nothing_is_left_there', async () => {
  const name = unique();
  for (const reply of [INFO('6.0.16'), new TextEncoder().encode(INFO('6.0.16'))]) {
    const { manager } = tellingVersion(async () => reply);
    const calls = [manager.mutex(name).acquire(), manager.mutex(unique()).tryAcquire(), manager.inspect(name), manager.mutex(name).acquire()];
    for (const error of await Promise.all(calls.map(caught))) {
      assert.ok(isLeaseholdError(error, 'unsupported') && !error.retryable, String(error));
      assert.match(error.message, /Redis 6\.0\.16 is too old: leasehold needs Redis 6\.2 or newer/);
    }
    await manager.close();
  }
  assert.ok(!(await fleet.isThere(name)));
});

test('the_version_is_asked_for_once_and_beside_the_first_command', async () => {
  const { manager, sent } = tellingVersion(async () => INFO('7.0.15'));
  const lease = await manager.mutex(unique()).acquire();
  assert.deepEqual(sent.slice(0, 3), ['INFO', 'EVAL', 'EVALSHA']);
  await lease.release();
  await (await manager.mutex(unique()).acquire()).release();
  assert.equal(sent.filter((name) => name === 'INFO').length, 1);
  await manager.close();
});

test('a_server_that_may_not_or_can_not_tell_is_taken_as_it_is', async () => {
  const answers = [
    async () => Promise.reject(new Error('NOPERM this user has no permissions to run the info command')),
    async () => Promise.reject(new Error('ERR unknown command')), async () => null, async () => ['a', 1], async () => 'redis_version:unstable',
    () => { throw new Error('no such thing'); },
  ];
  for (const answer of answers) {
    const { manager } = tellingVersion(answer as () => unknown);
    const lease = await manager.mutex(unique()).acquire();
    assert.equal(await lease.release(), 'released');
    await manager.close();
  }
});

test('a_server_that_does_not_tell_in_time_is_taken_as_it_is', async (t) => {
  const time = new VirtualTime(t);
  const { manager } = tellingVersion(() => new Promise(() => {}));
  const acquiring = manager.mutex(unique()).acquire();
  let isGranted = false;
  void acquiring.then(() => (isGranted = true));
  await until(async () => (await time.pass(1_000, 1_000), isGranted));
  assert.equal(await (await acquiring).release(), 'released');
  await manager.close();
});

test('a_server_that_was_not_reached_is_asked_again', async () => {
  let dead = true;
  const { manager, sent } = tellingVersion(async () => (dead ? Promise.reject(new Error('the connection broke')) : INFO('5.0.0')));
  const first = await manager.mutex(unique()).acquire();
  dead = false;
  await until(async () => isLeaseholdError(await caught(manager.mutex(unique()).acquire()), 'unsupported'));
  assert.ok(sent.filter((name) => name === 'INFO').length >= 2);
  await caught(first.release());
  await manager.close();
});

/** A connection through a proxy that closes it when it sees `INFO`. What is sent together with it is lost. */
function closingOnInfo(info: (count: number) => unknown = () => undefined): { sent: string[]; manager: LockManager } {
  const [redis, sent] = [fleet.client(), [] as string[]];
  let isBroken = false;
  const call = async ([name = '', ...args]: string[]): Promise<unknown> => {
    sent.push(name);
    const told = name === 'INFO' ? info(sent.filter((other) => other === name).length) : undefined;
    if (told !== undefined) return told;
    if (name === 'INFO') isBroken = true;
    await Promise.resolve();
    if (isBroken) {
      setImmediate(() => (isBroken = false));
      throw new Error('the connection was closed');
    }
    return redis.call(name, ...args);
  };
  return { sent, manager: new LockManager({ call }, GENEROUS) };
}

test('a_server_whose_connection_breaks_at_each_question_is_taken_as_it_is', async () => {
  const { manager, sent } = closingOnInfo();
  const lease = await manager.mutex(unique()).acquire();
  assert.equal(await lease.release(), 'released');
  const asked = sent.filter((name) => name === 'INFO').length;
  assert.ok(asked <= 5, sent.join(' '));
  for (let round = 0; round < 3; round++) await (await manager.mutex(unique()).acquire()).release();
  assert.equal(sent.filter((name) => name === 'INFO').length, asked);
  await manager.close();
});

test('a_server_too_old_is_refused_although_the_connection_broke_at_the_first_questions', async () => {
  const name = unique();
  const { manager } = closingOnInfo((count) => (count > 3 ? INFO('6.0.16') : undefined));
  const error = await caught(manager.mutex(name).acquire());
  assert.ok(isLeaseholdError(error, 'unsupported') && /6\.0\.16 is too old/.test(error.message), String(error));
  await manager.close();
});

test('supported_servers_and_silent_ones_pass', () => {
  for (const info of ['redis_version:6.2.14', 'redis_version:7.0.15', 'redis_version:10.0.0', 'redis_version:unstable', '', 'redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n']) {
    assert.equal(versionProblem(info), undefined, info);
  }
  assert.match(versionProblem('redis_version:7.2.4\r\nvalkey_version:7.1.9\r\n') ?? '', /^Valkey 7\.1\.9 is too old: leasehold needs Valkey 7\.2 or newer$/);
});

test('kvrocks_and_active_replicas_of_keydb_are_refused_and_told_why', async () => {
  assert.match(versionProblem('version:2.10.0\r\nkvrocks_version:2.10.0\r\nredis_version:4.0.0\r\n') ?? '', /^Kvrocks 2\.10\.0 can't be used/);
  for (const [role, code] of [['master', undefined], ['active-replica', 'unsupported']] as const) {
    const redis = fleet.client();
    const call = ([name = '', ...args]: string[]): Promise<unknown> => {
      if (name !== 'INFO') return redis.call(name, ...args);
      return Promise.resolve(args[0] === 'replication' ? `role:${role}\r\n` : 'redis_version:6.3.4\r\nfeatures:cluster_mget\r\n');
    };
    const manager = new LockManager({ call }, GENEROUS);
    const lock = manager.mutex(unique());
    if (code === undefined) assert.equal(await (await lock.acquire()).release(), 'released');
    else assert.ok(isLeaseholdError(await caught(lock.acquire()), code));
    await manager.close();
  }
});

test('a_server_that_can_delete_a_key_by_its_value_is_known_by_its_version', () => {
  assert.equal(deleteIfEqualOf('redis_version:7.2.4\r\nvalkey_version:9.0.0\r\n'), 'DELIFEQ');
  assert.equal(deleteIfEqualOf('redis_version:7.2.4\r\nvalkey_version:8.1.4\r\n'), undefined);
  assert.equal(deleteIfEqualOf('redis_version:8.4.0\r\n'), 'DELEX');
  for (const info of ['redis_version:8.2.3', 'redis_version:unstable', '']) assert.equal(deleteIfEqualOf(info), undefined, info);
});

test('a_release_alone_needs_no_script_where_the_server_has_a_command_for_it', async () => {
  for (const [info, command, refuses] of [[INFO('8.4.0'), 'DELEX', true], [INFO('8.4.0'), 'DELEX', false], [INFO('7.0.15'), 'EVALSHA', false]] as const) {
    const [redis, sent] = [fleet.client(), [] as string[]];
    const call = async ([name = '', ...args]: string[]): Promise<unknown> => {
      sent.push(name);
      if (name === 'INFO') return info;
      // The test's server is older than the version that it tells.
      if (name !== 'DELEX') return redis.call(name, ...args);
      if (refuses) throw new Error("ERR unknown command 'DELEX'");
      const [key = '', , value] = args;
      return (await redis.get(key)) === value ? redis.del(key) : 0;
    };
    const manager = new LockManager({ call }, GENEROUS);
    for (let round = 0; round < 3; round++) assert.equal(await (await manager.mutex(unique()).acquire()).release(), 'released');
    assert.equal(sent.filter((name) => name === 'DELEX').length, command !== 'DELEX' ? 0 : refuses ? 1 : 3, sent.join(' '));
    await manager.close();
  }
});
