import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import quorum from './quorum.js';

const clients = process.env.REDIS_URLS.split(',').map((url) => new Redis(url));
await quorum(clients, LockManager);
for (const client of clients) client.disconnect();
