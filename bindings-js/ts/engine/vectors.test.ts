/** Replays the engine's transcripts in `tests/support/vectors`, whose README defines the format, through WebAssembly. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

import { explained } from '../client/refusals.js';
import type { Failure, Reply, Scalar } from '../connections/index.js';
import { isLeaseholdError, type Vote } from '../support/errors.js';
import { LOCK_DEFAULTS, MANAGER_DEFAULTS } from '../support/options.generated.js';
import { InputKind } from './codes.generated.js';
import { camelCase, Engine, quorumEngine } from './engine.js';
import type { Outcome } from './outcomes.generated.js';
import type { Outputs } from './output-reader.js';
import { type AcquireSettings, type Config, type EngineError, type LockKind, type LockSpec, type Mode, PLAIN } from './types.js';

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const files = readdirSync(new URL('../../../tests/support/vectors', import.meta.url)).filter((name) => name.endsWith('.json')).sort();

/** The engine's scripts, by digest and by source, under the name of the call that sends them. */
const scripts = await learnScripts();

/** The inputs that the npm package's engine doesn't have. Only the component's driver uses them. */
const LACKING = ['keep'];

const vectors = files.map((name) => ({ name, file: JSON.parse(read(`tests/support/vectors/${name}`)) as File }));
const lacking = ({ steps }: File): string[] => LACKING.filter((kind) => steps.some(({ input }) => typeof input === 'object' && kind in input));

for (const { name, file } of vectors) {
  const lacks = lacking(file);
  test(`${name}: ${file.about}`, { skip: lacks.length > 0 && `no ${lacks.join()}` }, () => replay(file));
}

test('there are vectors, and those that are skipped are only about what the engine lacks', () => {
  assert.ok(vectors.filter(({ file }) => lacking(file).length === 0).length >= 110, `${files.length}`);
  for (const kind of LACKING) {
    assert.ok(vectors.some(({ file }) => lacking(file).includes(kind)), `no vector has ${kind}`);
    assert.ok(!(kind in Engine.prototype), `the engine has ${kind}: replay its vectors`);
  }
});

interface File {
  about: string;
  client: string;
  config?: Record<string, unknown>;
  servers?: string[];
  cluster?: boolean;
  refused?: { code: string; field: string };
  steps: { at: number; why?: string; input: Event; outputs: unknown; wake: number | null }[];
}

type Text = string | { hex: string };
type FailureText = 'timed-out' | Record<string, string>;
type Event = 'wake' | Record<string, Record<string, never>>;

async function replay(file: File): Promise<void> {
  const found: unknown[] = [];
  const engineModule = file.servers && await quorumEngine(file.servers);
  let now = 0;
  const clock = (): number => now / 1_000;
  const clocks = { monotonic: clock, wall: clock };
  let engine: Engine;
  try {
    engine = new Engine(bytes(file.client.replaceAll('-', '')), config(file.config), recorder(found), engineModule, clocks);
    // The transcripts have steps that are late, without a pause of the process.
    engine.setClocks(clocks);
    if (file.cluster) engine.setCluster(0);
  } catch (refused) {
    assert.ok(isLeaseholdError(refused, 'invalid-option'), String(refused));
    assert.deepEqual({ code: refused.code, field: refused.field }, { ...file.refused, field: camelCase(file.refused?.field ?? '') });
    return;
  }
  assert.equal(file.refused, undefined);
  file.steps.forEach((step, index) => {
    found.length = 0;
    now = step.at;
    handle(engine, step.input);
    const place = `step ${index + 1} at ${step.at} µs: ${step.why ?? JSON.stringify(step.input)}`;
    assert.deepEqual(found, step.outputs, place);
    assert.equal(engine.wake === Infinity ? null : engine.wake, step.wake, place);
  });
  engine.free();
}

function config(given: Record<string, unknown> = {}): Config {
  return { ...MANAGER_DEFAULTS, batches: true, ahead: false, ...camelCased(given) };
}

/** `token` is that of the lease to take over. */
function handle(engine: Engine, event: Event, token?: string): void {
  if (event === 'wake') return engine.passed();
  const [kind, fields] = Object.entries(event)[0] as [string, Record<string, unknown>];
  const { op, lease } = fields as { op: number; lease: number };
  switch (kind) {
    case 'acquire': {
      const { name, mode = 'exclusive' } = fields as { name: string; mode?: Mode };
      return engine.acquire(op, { name, mode, kind: kindOf(fields) }, settingsOf(fields), token);
    }
    case 'adopt': {
      const { token, acquire } = fields as { token: string; acquire: Record<string, never> };
      return handle(engine, { acquire }, token);
    }
    case 'acquire-all': {
      const { names, kinds = [], mode = 'exclusive', one_script = false } = fields as {
        names: string[]; kinds?: (Mode | [number, number])[]; mode?: Mode; one_script?: boolean;
      };
      const parts = names.map((name, at): LockSpec => {
        const kind = kinds[at] ?? 'exclusive';
        return typeof kind === 'string' ? { name, mode: kind, kind: PLAIN } : { name, mode: 'exclusive', kind: kindOf({ permits: kind }) };
      });
      return engine.acquire(op, { name: names.join(', '), mode, kind: { type: 'multi', parts, oneScript: one_script } }, settingsOf(fields));
    }
    case 'campaign': {
      const { value, acquire } = fields as { value: string; acquire: Record<string, never> };
      return handle(engine, { acquire: { ...acquire, election: value } as unknown as Record<string, never> });
    }
    case 'cancel':
      return engine.cancel(op);
    case 'stop-renewing':
      return engine.stopRenewing(lease);
    case 'reply': {
      const { call, result } = fields as { call: number; result: { one: unknown } | { list: unknown[] } | FailureText };
      if (typeof result === 'object' && 'one' in result) return engine.reply(call, scalar(result.one));
      if (typeof result === 'object' && 'list' in result) return engine.reply(call, (result.list as unknown[]).map(scalar));
      return engine.failed(call, explained(failure(result)));
    }
    case 'dedicated-reply': {
      const { op, result } = fields as { op: number; result: { one: unknown } | { list: unknown[] } | FailureText };
      if (typeof result === 'object' && 'one' in result) return engine.dedicatedReply(op, scalar(result.one));
      if (typeof result === 'object' && 'list' in result) return engine.dedicatedReply(op, (result.list as unknown[]).map(scalar));
      return engine.dedicatedFailed(op, failure(result));
    }
    case 'message':
      return engine.message(channelOf(fields), textOf(fields['payload'] as Text));
    case 'subscribed':
      return engine.subscribed(channelOf(fields));
    case 'unsubscribed':
      return engine.unsubscribed(channelOf(fields), failure(fields['cause'] as FailureText));
    case 'force-release':
      return engine.forceRelease(op, fields['name'] as string, fields['foreign'] === true);
    default: {
      // The method takes the fields in the order of the transcript.
      const method = camelCase(kind.replaceAll('-', '_')) as 'hold';
      assert.ok(method in InputKind, `unknown input ${kind}`);
      return engine[method](...(Object.values(fields) as [number, number]));
    }
  }
}

/** The options of an acquire, with the engine's names and defaults. */
function settingsOf({ wait, replicas, ...fields }: { wait?: number | 'no' | 'forever'; replicas?: [number, number] }): AcquireSettings {
  return {
    ...LOCK_DEFAULTS, ...camelCased(fields),
    ...(wait === undefined ? {} : { wait: wait === 'no' ? undefined : wait === 'forever' ? Infinity : wait }),
    ...(replicas && { replicas: { min: replicas[0], timeout: replicas[1] } }),
  };
}

function camelCased(fields: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [camelCase(name), value]));
}

function kindOf({ kind, owner, permits, per, keep, election }: {
  kind?: string; owner?: number; permits?: [number, number]; per?: number; keep?: number; election?: string;
}): LockKind {
  if (kind !== undefined) return { type: kind } as LockKind;
  if (election !== undefined) return { type: 'election', value: election };
  if (keep !== undefined) return { type: 'once', keep };
  if (owner !== undefined) return { type: 'reentrant', owner };
  return permits === undefined ? PLAIN : { type: 'semaphore', permits: permits[0], limit: permits[1], per };
}

/** The client's own channel, if the step names none. */
function channelOf({ channel = 'leasehold:' }: { channel?: string }): string {
  return channel;
}

function failure(given: FailureText): Failure {
  if (given === 'timed-out') return { kind: 'timed-out' };
  const [kind, text] = Object.entries(given)[0] as [Exclude<Failure['kind'], 'timed-out'>, string];
  return { kind, text };
}

function scalar(given: unknown): Scalar & Reply {
  return typeof given === 'object' && given !== null ? bytes((given as { hex: string }).hex) : (given as Scalar & Reply);
}

function textOf(given: Text): string {
  return typeof given === 'string' ? given : Buffer.from(given.hex, 'hex').toString();
}

function bytes(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, 'hex'));
}

function recorder(found: unknown[]): Outputs {
  return {
    send: (call, node, { words: [command, script = '', ...rest] }) =>
      found.push({ send: { call, command: [command, scripts.get(script) ?? script, ...rest], ...(node === 0 ? {} : { node }) } }),
    sendDedicated: (op, key, { words: [command, script = '', ...rest] }) => {
      assert.equal(key, command === 'WAIT' ? '' : rest[1]);
      found.push({ 'send-dedicated': { op, command: [command, scripts.get(script) ?? script, ...rest] } });
    },
    closeDedicated: (op) => found.push({ 'close-dedicated': { op } }),
    subscribe: (channel) => found.push({ subscribe: { channel } }),
    unsubscribe: (channel) => found.push({ unsubscribe: { channel } }),
    completed: (op, outcome) => found.push({ completed: { op, result: resultOf(outcome) } }),
    lost: (lease, reason) => found.push({ lost: { lease, reason } }),
    leader: (op, leader) => found.push({ leader: { op, leader } }),
  };
}

async function learnScripts(): Promise<Map<string, string>> {
  const scripts = new Map<string, string>();
  const sent: { id: number; words: string[] }[] = [];
  const granted: number[] = [];
  const outputs: Outputs = {
    send: (id, _node, { words }) => sent.push({ id, words }),
    sendDedicated: () => {},
    closeDedicated: () => {},
    subscribe: () => {},
    unsubscribe: () => {},
    completed: (_, outcome) => {
      if (outcome.kind === 'acquired') granted.push(outcome.grant.lease);
    },
    lost: () => {},
    leader: () => {},
  };
  // Time stands still. Otherwise an answer could be late on a slow machine.
  const clocks = { monotonic: () => 0, wall: () => 0 };
  const engine = new Engine(new Uint8Array(16), config({ batches: false }), outputs, undefined, clocks);
  const settings = { ttl: 30_000, renew: true, maxHold: undefined, wait: undefined };
  const lock = (kind: LockKind): LockSpec => ({ name: 'a', mode: 'exclusive', kind });
  const forceAnother = (op: number, misses: number): void => {
    engine.forceRelease(op, 'a', false);
    for (let miss = 0; miss < misses; miss += 1) engine.failed(sent.pop()?.id ?? 0, { kind: 'refused', text: 'WRONGTYPE' });
  };
  const inputs: Record<string, () => void> = {
    inspect: () => engine.inspect(1, 'a'),
    acquire: () => engine.acquire(2, lock(PLAIN), settings),
    renew: () => engine.extend(3, 1, 60_000),
    convert: () => engine.convert(4, 1, 'shared'),
    release: () => engine.release(5, 1),
    'reentrant-acquire': () => engine.acquire(6, lock({ type: 'reentrant', owner: 1 }), settings),
    'reentrant-renew': () => engine.extend(7, 2, 60_000),
    'reentrant-release': () => engine.release(8, 2),
    'semaphore-acquire': () => engine.acquire(9, lock({ type: 'semaphore', permits: 1, limit: 2 }), settings),
    'semaphore-renew': () => engine.extend(10, 3, 60_000),
    'semaphore-release': () => engine.release(11, 3),
    'semaphore-convert': () => engine.acquire(16, lock({ type: 'semaphore', permits: 1, limit: 2 }), settings, '01234567-89ab-cdef-0123-456789abcdef:7'),
    multi: () => engine.acquire(12, lock({ type: 'multi', parts: ['{a}1', '{a}2'].map((name): LockSpec => ({ name, mode: 'exclusive', kind: PLAIN })), oneScript: false }), settings),
    force: () => engine.forceRelease(15, 'a', false),
    'reentrant-force': () => forceAnother(13, 1),
    'semaphore-force': () => forceAnother(14, 2),
    'once-acquire': () => engine.acquire(17, lock({ type: 'once', keep: 60_000 }), settings),
    'once-release': () => engine.store(18, granted.at(-1) ?? assert.fail(), '1'),
    'once-force': () => forceAnother(19, 3),
    'election-force': () => forceAnother(20, 4),
    'election-acquire': () => engine.acquire(21, { ...lock({ type: 'election', value: '' }), name: 'e' }, settings),
    'election-release': () => engine.release(22, granted.at(-1) ?? assert.fail()),
    leader: () => {
      engine.observe(23, 'e');
      engine.subscribed('leasehold:{e}:leader');
    },
  };
  /** The engine has just sent the script by its digest, and sends the source if the server doesn't know the digest. */
  const learn = (name: string, engine: Engine): number => {
    const { id, words: [command, digest = ''] } = sent.pop() ?? assert.fail(name);
    engine.failed(id, { kind: 'refused', text: 'NOSCRIPT No matching script.' });
    const again = sent.pop() ?? assert.fail(name);
    const [evaluate, source = ''] = again.words;
    assert.deepEqual([command, evaluate, createHash('sha1').update(source).digest('hex')], ['EVALSHA', 'EVAL', digest]);
    scripts.set(digest, name).set(source, name);
    return again.id;
  };
  const answered = (fence: number, status = 'entered'): Reply => [status, fence, 1, 1_700_000_000_000_000, 30_000, 0, 0];
  for (const [name, input] of Object.entries(inputs)) {
    input();
    const status = { acquire: 'entered', renew: 'renewed', convert: 'converted' }[name.split('-').at(-1) ?? ''] ?? '';
    engine.reply(learn(name, engine), answered(1_700_000_000_000_000, status));
  }
  const quorum = new Engine(new Uint8Array(16), config({ batches: false }), outputs, await quorumEngine(['a', 'b', 'c']), clocks);
  sent.length = 0;
  quorum.acquire(1, lock(PLAIN), settings);
  sent.splice(0).slice(0, 2).forEach(({ id }, at) => quorum.reply(id, answered(1_700_000_000_000_000 + at)));
  learn('raise', quorum);
  quorum.free();
  engine.free();
  const together = new Engine(new Uint8Array(16), config(), outputs, undefined, clocks);
  const others: Record<string, [() => void, Reply]> = {
    'acquire-fast': [() => together.acquire(1, lock(PLAIN), settings), '1700000000000000'],
    'release-fast': [() => together.release(2, granted.at(-1) ?? assert.fail()), 1],
    batch: [() => ['b', 'c'].forEach((name, at) => together.acquire(3 + at, { ...lock(PLAIN), name }, settings)), [0, 0, 0, 0]],
  };
  for (const [name, [input, reply]] of Object.entries(others)) {
    input();
    together.passed();
    together.reply(learn(name, together), reply);
  }
  together.free();
  return scripts;
}

/** A field that is alone stands without its name, unless it is a time. */
function resultOf(outcome: Outcome): unknown {
  if (outcome.kind === 'failed') return { error: errorOf(outcome.error) };
  const { kind, ...fields } = outcome;
  const [alone, ...others] = Object.entries(fields);
  return { [kind]: alone === undefined || others.length > 0 || alone[0] === 'validUntil' ? snakeCased(fields) : snakeCased(alone[1]) };
}

/** The same with the engine's names. It leaves the labels to the driver. */
function snakeCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCased);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).filter(([name, field]) => field !== null || !['label', 'leaseLabel'].includes(name));
  return Object.fromEntries(fields.map(([name, field]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), snakeCased(field)]));
}

function errorOf({ code, field, reason, text, waited, holderRemaining, waiters, confirmed, wanted, cause, votes: all }: EngineError): unknown {
  const votes = all.length === 0 ? {} : { votes: all.map(({ server, answer }: Vote) => ({ server, answer })) };
  switch (code) {
    case 'invalid-option':
      return { code, field };
    case 'busy':
      return { code, waited, holder_remaining: holderRemaining ?? null, ...(waiters === undefined ? {} : { waiters }), ...(text === '' ? {} : { busy_name: text }), ...votes };
    case 'unreachable':
      return { code, waited, cause: cause === undefined ? null : cause.kind === 'timed-out' ? cause.kind : { [cause.kind]: cause.text }, ...votes };
    case 'lost':
      return { code, reason };
    case 'not-replicated':
      return { code, confirmed, wanted, waited };
    case 'auth':
    case 'server':
    case 'wrong-kind':
    case 'unsupported':
      return { code, text };
    default:
      return { code };
  }
}
