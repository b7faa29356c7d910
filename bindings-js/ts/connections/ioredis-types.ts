/** What is used of ioredis, in any version of the library. */

import type { Address } from './link.js';

/** A client. */
export interface IoRedis {
  readonly status: string;
  readonly isCluster?: boolean;
  readonly mode?: string;
  readonly stream?: Stream | null;
  /** The commands that were sent and have no reply, oldest first. ioredis doesn't document it, so it is only read. */
  readonly commandQueue?: { peekFront?(): { readonly command?: Partial<Command> } | undefined };
  readonly options?: IoRedisOptions;
  connect(): Promise<unknown>;
  disconnect(): void;
  call(name: string, ...args: readonly string[]): Promise<unknown>;
  callBuffer(name: string, ...args: readonly string[]): unknown;
  sendCommand(command: Command, stream?: Pick<Stream, 'write'>): unknown;
  duplicate(options: object): IoRedis;
  nodes?(role: 'all' | 'master'): IoRedis[];
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: string | symbol, listener: (...args: never[]) => void): unknown;
  off(event: string | symbol, listener: (...args: never[]) => void): unknown;
}

/** The options of a client that are read here. */
export interface IoRedisOptions {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string;
  readonly tls?: unknown;
  readonly sentinels?: readonly { readonly host?: string; readonly port?: number; readonly family?: number }[] | null;
  /** The primary's name in its sentinels. */
  readonly name?: string;
  readonly sentinelUsername?: string | null;
  readonly sentinelPassword?: string | null;
  readonly sentinelTLS?: unknown;
  readonly enableTLSForSentinelMode?: boolean;
  readonly natMap?: Readonly<Record<string, Address>> | ((key: string) => Address | null) | null;
}

/** ioredis's object for a command. */
export interface Command {
  name: string;
  args: unknown[];
  promise?: Promise<unknown>;
  resolve?(reply: unknown): void;
  reject(error: unknown): void;
  setTimeout(ms: number): void;
  toWritable?(): string;
}

export interface Stream {
  /** Why the connection broke. */
  readonly errored?: Error | null;
  readonly destroyed?: boolean;
  destroy(error?: Error): void;
  write(data: string | Uint8Array): unknown;
  ref(): void;
  unref(): void;
  on(event: 'data', listener: (bytes: Uint8Array) => void): unknown;
  off(event: 'data', listener: (bytes: Uint8Array) => void): unknown;
}
