// A database refuses the late write of a holder that lost the lock.
//
// A lock can't stop a process that sleeps between its last look at the lease and its write. The database can: it stores the
// greatest fencing token that it has seen in the row, and checks it in the same statement as the write.
//
// It prints:
//   Ann's late write: refused; Bob's: done; paid by Bob
import { PGlite } from '@electric-sql/pglite'; // Postgres in this process; with `pg` the query is the same
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const db = new PGlite();
await db.exec(`
  CREATE TABLE carts (id text PRIMARY KEY, status text NOT NULL, paid_by text, fence bigint NOT NULL DEFAULT 0);
  INSERT INTO carts (id, status) VALUES ('cart-7', 'open');
`);

/** Pays for a cart, at most once. */
export async function checkout(locks, cart, payer, { think = async () => {}, ttl = '30s', renew = true } = {}) {
  const lease = await locks.mutex(`cart:${cart}`).acquire({ ttl, renew });
  try {
    await think();
    const { affectedRows } = await db.query(
      `UPDATE carts SET status = 'paid', paid_by = $2, fence = $3
       WHERE id = $1 AND status = 'open' AND fence <= $3`,
      [cart, payer, lease.fence],
    );
    return affectedRows === 1;
  } finally {
    await lease.release();
  }
}

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const [one, other] = [new LockManager(redis), new LockManager(redis)];

/** Another holder gets the lock and stores its fence. From now on, the database refuses older writes. */
async function inspect(locks, cart) {
  await locks.mutex(`cart:${cart}`).run((lease) =>
    db.query('UPDATE carts SET fence = $2 WHERE id = $1 AND fence <= $2', [cart, lease.fence]));
}

// Ann falls asleep, and her lease of 200 ms ends before she writes.
const late = await checkout(one, 'cart-7', 'Ann', { ttl: 200, renew: false, think: () => inspect(other, 'cart-7') });
const fresh = await checkout(other, 'cart-7', 'Bob');
const { rows: [cart] } = await db.query(`SELECT status, paid_by FROM carts WHERE id = 'cart-7'`);
console.log(`Ann's late write: ${late ? 'went through' : 'refused'}; Bob's: ${fresh ? 'done' : 'refused'}; ${cart.status} by ${cart.paid_by}`);

await one.close();
await other.close();
redis.disconnect();
await db.close();
