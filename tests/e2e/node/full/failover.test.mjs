// Processes in Node and in Rust behind Sentinel share one lock through failovers. This needs a quiet machine: on a busy one, a client
// may need longer than a second to leave the old primary.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startSentinel, startServer } from '../support/server.mjs';
import { until } from '../support/wait.mjs';
import { LANGUAGES, startWorker } from '../support/worker.mjs';

/** In microseconds. From the promotion until the sentinel reports it, the old and the new primary may both grant the lock. */
const SECOND = 1_000_000;
const now = () => Math.round((performance.timeOrigin + performance.now()) * 1000);

/** The ways to cause a failover. Each ends when the sentinel names the other server. */
const KINDS = {
  'in an orderly failover': async ({ sentinel }, switched) => {
    await until('the sentinel begins', () => sentinel.cli('SENTINEL', 'FAILOVER', 'main').then(() => true, () => false));
    await switched();
  },
  'in a failover from a primary that hangs and resumes': async ({ primary }, switched) => {
    primary.pause();
    await switched();
    primary.resume();
  },
};

for (const [kind, failOver] of Object.entries(KINDS)) {
  test(`two processes of each language hold one lock one after the other ${kind}`, async (t) => {
    const watched = await startSentinel();
    t.after(() => watched.stop());
    // Counts the holders at a time. The processes' clocks may differ by more than the time between two turns.
    const counter = await startServer();
    t.after(() => counter.stop());
    const { sentinel, replica } = watched;
    const workers = Object.values(LANGUAGES).flatMap((language) =>
      [1, 2].map(() => startWorker(language, { port: `sentinel:${sentinel.port}` }, 'door', { mode: 'turns', ttl: 2000, claimWindow: 600, counter })));
    const turns = [];
    const told = workers.map(async (worker, at) => {
      for (let line = await worker.next(); line !== 'it has ended'; line = await worker.next()) {
        const [, fence, granted, inside] = line.split(' ').map(Number);
        turns.push({ at, fence, granted, inside });
      }
    });
    await until('each had its turn', () => workers.every((_, at) => turns.some((turn) => turn.at === at)));
    await failOver(watched, () =>
      until('the replica is the primary', async () => (await sentinel.cli('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main'))[1] === `${replica.port}`));
    const switched = now();
    await until('each has gone on', () => workers.every((_, at) => turns.some((turn) => turn.at === at && turn.granted > switched + SECOND)));
    for (const worker of workers) await worker.end();
    await Promise.all(told);

    const overlaps = turns.filter(({ inside }) => inside > 1);
    const late = overlaps.filter(({ granted }) => granted < switched - SECOND || granted > switched + SECOND);
    t.diagnostic(`${turns.length} turns, ${overlaps.length} overlapped another, ${late.length} of these more than a second before or after the switch`);
    assert.deepEqual(late, []);
  });
}
