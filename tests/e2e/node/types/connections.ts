// The constructor accepts the clients of every version by their own types, and nothing else. This is compiled, not run.
import { Redis as UpstashRedis } from '@upstash/redis';
import { Redis as UpstashCloudflareRedis } from '@upstash/redis/cloudflare';
import { GlideClient, GlideClusterClient } from '@valkey/valkey-glide';
import * as ioredis5 from 'ioredis';
import * as ioredis6 from 'ioredis-6';
import { type Connection, type CustomConnection, LockManager } from 'leasehold';
import { bunConnection } from 'leasehold/bun';
import { cloudflareConnection, type ServerConnection } from 'leasehold/cloudflare';
import { upstashConnection } from 'leasehold/upstash';
import * as redis5 from 'redis';
import * as redis4 from 'redis-4';
import * as redis6 from 'redis-6';

export async function clients(): Promise<Connection[]> {
  const rootNodes = [{ url: 'redis://127.0.0.1' }];
  const own: CustomConnection = { call: async (args) => args.length };
  const address = { url: 'https://host', token: 'token' };
  const server: ServerConnection = cloudflareConnection('redis://host');
  server.close();
  const made = [
    server, bunConnection('redis://host', { tls: { ca: '' }, connectionTimeout: 1_000 }), upstashConnection(address),
    upstashConnection(new UpstashRedis(address)), upstashConnection(new UpstashCloudflareRedis(address)),
    new ioredis5.Redis(), new ioredis5.Cluster([]), new ioredis6.Redis(), new ioredis6.Cluster([]),
    redis4.createClient(), redis5.createClient(), redis5.createClient({ RESP: 3 }), redis6.createClient(), await redis6.createClient().connect(),
    redis4.createCluster({ rootNodes }), redis5.createCluster({ rootNodes }), redis6.createCluster({ rootNodes }),
    await GlideClient.createClient({ addresses: [] }), await GlideClusterClient.createClient({ addresses: [] }), own,
  ] satisfies Connection[];
  new LockManager(new ioredis5.Redis());
  new LockManager(redis5.createClient());
  // The parameters of your own functions need no types.
  new LockManager({
    call: async (args) => args.map((word) => word.length),
    subscribe: async (channel, onMessage, onEnd) => {
      onMessage(channel.toUpperCase());
      return () => onEnd(new Error('it ended'));
    },
  });
  return made;
}

export async function others(): Promise<void> {
  // @ts-expect-error
  new LockManager();
  // @ts-expect-error
  new LockManager({});
  // @ts-expect-error
  new LockManager(new UpstashRedis({ url: 'https://host', token: 'token' }));
  // @ts-expect-error
  upstashConnection({ url: 'https://host' });
  // @ts-expect-error
  bunConnection('redis://host', { autoReconnect: true });
  // @ts-expect-error
  new LockManager(7);
  // @ts-expect-error
  new LockManager(null);
  // @ts-expect-error
  new LockManager('redis://127.0.0.1');
  // @ts-expect-error
  new LockManager(new URL('redis://127.0.0.1'));
  // @ts-expect-error
  new LockManager(new Map());
  // @ts-expect-error
  new LockManager(() => {});
  // @ts-expect-error
  new LockManager(ioredis5.Redis);
  // @ts-expect-error
  new LockManager(GlideClient.createClient({ addresses: [] }));
  // @ts-expect-error
  new LockManager({ call: 'PING' });
  // @ts-expect-error
  new LockManager({ call: async (command: number) => command });
  // @ts-expect-error
  new LockManager(redis5.createClientPool());
  // @ts-expect-error
  new LockManager(redis5.createSentinel({ name: 'primary', sentinelRootNodes: [] }));
  // @ts-expect-error
  new LockManager(redis6.createSentinel({ name: 'primary', sentinelRootNodes: [] }));
  // @ts-expect-error
  new LockManager(await redis6.createSentinel({ name: 'primary', sentinelRootNodes: [], RESP: 3 }).connect());
  // @ts-expect-error
  new LockManager(redis6.createClientPool());
}
