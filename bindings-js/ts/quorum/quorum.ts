/**
 * Opens a quorum. A member is a server, a group of servers behind Sentinel, or a cluster. Checks that no server appears twice
 * and that a majority is reachable.
 */

import { Client, describeFailure, isNotReady, type VersionCheckResult, versionProblem } from '../client/index.js';
import { type Failed, type Link, messageOf, recognise, serverMessage } from '../connections/index.js';
import { type Config, quorumEngine } from '../engine/index.js';
import { AuthError, InvalidOptionError, isLeaseholdError, UnreachableError, UnsupportedError, type Vote } from '../support/errors.js';
import { formatValue, isArray } from '../support/format.js';
import { HOST_TIME } from '../support/timers.js';
import { describeVotes } from '../support/votes.js';

/** Makes a client, after it has asked all servers for their version and identity. */
export async function openQuorum(connections: unknown, config: Config): Promise<Client> {
  const links = linksOf(connections);
  const names = links.map((link, at) => link.address?.() ?? `connection ${at + 1}`);
  const identities = new Identities(names, links.map(({ isCluster }) => isCluster === true));
  let client: Client | undefined;
  try {
    const engine = await quorumEngine(names);
    client = new Client(config, { connect: () => links, problemOf: (info, at) => identities.problemOf(info, at), engine }, () => '');
    const began = HOST_TIME.now();
    const checks = await client.checkServers();
    if (identities.refusal !== undefined) throw refused(identities.refusal);
    checkMajority(names, checks, Math.trunc(HOST_TIME.now() - began));
    return client;
  } catch (error) {
    await (client?.close() ?? Promise.all(links.map((link) => link.close())));
    throw error;
  }
}

function linksOf(given: unknown): readonly Link[] {
  const connections = listOf(given);
  if (connections.length < 3 || connections.length % 2 === 0) {
    throw refused(`lists ${connections.length} servers: list an odd number, 3 or more, so that there is a majority; 3 or 5 are usual`);
  }
  connections.forEach((connection, at) => {
    if (connections.indexOf(connection) < at) throw refused(`lists one connection twice, at positions ${connections.indexOf(connection) + 1} and ${at + 1}: list each server once`);
  });
  const links: Link[] = [];
  try {
    connections.forEach((connection, at) => links.push(linkTo(connection, at)));
    if (new Set(links.map(({ time }) => time)).size > 1) {
      throw refused('lists servers in memory that have different clocks: make them with one, `new MemoryServer({ clock })`');
    }
    return links;
  } catch (error) {
    for (const link of links) void link.close();
    throw error;
  }
}

function listOf(given: unknown): readonly unknown[] {
  if (!isArray(given)) throw refused(`is ${formatValue(given)}: give a list of connections`);
  try {
    return [...(given as readonly unknown[])];
  } catch (cause) {
    throw refused("can't be read", cause);
  }
}

function linkTo(connection: unknown, at: number): Link {
  try {
    return recognise(connection);
  } catch (cause) {
    if (!isLeaseholdError(cause, 'invalid-option')) throw cause;
    throw refused(`lists an unusable connection at position ${at + 1}: it ${cause.message.replace('`connection` ', '')}`, cause);
  }
}

/** Finds connections that lead to the same server or cluster. It would have several votes. */
class Identities {
  readonly #names: readonly string[];
  readonly #isCluster: readonly boolean[];
  readonly #known = new Map<string, number>();
  /** What no later attempt can mend. */
  refusal: string | undefined;

  constructor(names: readonly string[], isCluster: readonly boolean[]) {
    this.#names = names;
    this.#isCluster = isCluster;
  }

  problemOf(info: string, at: number): string | undefined {
    const problem = versionProblem(info);
    if (problem !== undefined) return problem;
    // `INFO` of a cluster comes from any of its servers.
    if (this.#isCluster[at] === true) {
      return this.#admit(nodesIn(info), at, (one, other) => `lists one cluster twice: ${one} and ${other} are the same; list each cluster once`);
    }
    if (/^\w+_mode:cluster/m.test(info)) return this.#refuse(`lists ${this.#names[at]}, a server of a cluster: pass a client of the whole cluster`);
    const id = /^run_id:(\S+)/m.exec(info)?.[1];
    return id === undefined ? undefined : this.#admit([id], at, (one, other) => `lists one server twice: ${one} and ${other} are the same server; list each server once`);
  }

  /** Remembers the ids of a member, unless another member has one of them. */
  #admit(ids: readonly string[], at: number, problem: (one: string, other: string) => string): string | undefined {
    const other = ids.map((id) => this.#known.get(id) ?? at).find((one) => one !== at);
    if (other !== undefined) return this.#refuse(problem(this.#names[Math.min(other, at)] ?? '', this.#names[Math.max(other, at)] ?? ''));
    for (const id of ids) this.#known.set(id, at);
    return undefined;
  }

  #refuse(problem: string): string {
    this.refusal = problem;
    return `\`servers\` ${problem}`;
  }
}

/** The ids of a cluster's nodes, if the reply contains its `CLUSTER NODES`. */
function nodesIn(reply: string): string[] {
  return [...reply.matchAll(/^([0-9a-f]{40}) \S+@\d+/gm)].map(([, id = '']) => id);
}

function checkMajority(names: readonly string[], checks: readonly VersionCheckResult[], waited: number): void {
  const problem = checks.find((check) => check.problem !== undefined)?.problem;
  if (problem !== undefined) throw new UnsupportedError(problem);
  const votes = checks.map(({ failed }, at) => voteOf(names[at] ?? '', failed));
  const needed = Math.floor(votes.length / 2) + 1;
  const count = (answer: Vote['answer']): number => votes.filter((vote) => vote.answer === answer).length;
  if (count('agreed') >= needed) return;
  const cause = checks.find(({ failed }) => failed?.cause !== undefined)?.failed?.cause;
  if (count('auth') < needed) throw new UnreachableError(undefined, { waited, votes, cause });
  const message = votes.find(({ answer }) => answer === 'auth')?.problem;
  throw new AuthError(`${message}: ${describeVotes(votes)}`, { votes, cause });
}

function voteOf(server: string, failed: Failed | undefined): Vote {
  if (failed === undefined) return { server, answer: 'agreed' };
  const { failure, cause } = failed;
  // A failed connection can have the server's own error as its cause.
  const message = failure.kind === 'refused' ? failure.text : serverMessage(cause);
  if (message !== undefined && /^-?(?:NOAUTH|WRONGPASS)/.test(message)) return { server, answer: 'auth', problem: message };
  if (failure.kind === 'timed-out') return { server, answer: 'timed-out' };
  // A server that refuses to answer is reachable.
  if (failure.kind === 'refused' && !isNotReady(failure.text)) return { server, answer: 'agreed' };
  return { server, answer: 'unreachable', problem: cause === undefined ? describeFailure(failure) : messageOf(cause) };
}

function refused(problem: string, cause?: unknown): InvalidOptionError {
  return new InvalidOptionError('servers', problem, { cause });
}
