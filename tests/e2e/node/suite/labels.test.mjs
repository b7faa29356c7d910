// A process shows what a process in another language calls its lease.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startServer } from '../support/server.mjs';
import { until } from '../support/wait.mjs';
import { LANGUAGES, startWorker } from '../support/worker.mjs';

let server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

for (const [holding, holder] of Object.entries(LANGUAGES)) {
  for (const [inspecting, inspector] of Object.entries(LANGUAGES)) {
    test(`an inspect in ${inspecting} shows the label of a lease in ${holding}, and ends without it while that process is paused`, async () => {
      const name = `${holding} ${inspecting}`;
      const start = (program, mode, ttl) => startWorker(program, server, name, { mode, ttl, claimWindow: 600 });
      // The holder subscribes with its first renewal, after 5 s.
      const held = start(holder, 'write', 15_000);
      assert.match(await held.report(), /^held /);
      const inspect = start(inspector, 'inspect', 15_000);
      const seen = async () => {
        inspect.order('inspect');
        return inspect.report();
      };
      await until('the holder listens', async () => (await seen()) === 'label job 17');
      held.process.pause();
      assert.equal(await seen(), 'label none');
      held.process.resume();
      await until('the holder answers again', async () => (await seen()) === 'label job 17');
      held.order('release');
      assert.equal(await held.report(), 'Released');
      assert.equal(await seen(), 'free');
      await inspect.end();
    });
  }
}
