/**
 * Renews leases in a worker thread while the event loop is blocked (the option `renewIn`).
 *
 * The engine in this thread decides everything, and renews its leases as without a worker. The worker is a second sender of the same
 * command, for the time in which this thread is silent:
 *
 *     this thread                              SharedArrayBuffer           worker
 *     each reply from the server     ------>   when it was heard  ------>  silent for a third of a TTL?
 *     a lease is granted, converted, ---------- message ---------------->  renews it, until `maxHold` is over
 *     released or lost
 *     before each input: Engine.renewed <---   what was confirmed <------  the server's answer
 *
 * - This thread owns the leases. The worker knows a lease only by the command that renews it. It takes nothing, gives nothing back, and
 *   tells nobody of a loss. If it dies, everything goes on as without it.
 * - Only a reply of the server counts as a sign of life. A blocked program may still call this package, which sends nothing.
 * - The worker writes only what the server has confirmed, with the time before the command was sent. Its clock is mapped to this
 *   thread's clock so that the time is never too late: see `renewals.ts`.
 * - This thread reads that before each input, so before any timer counts.
 * - A renewal never takes a lock and never makes one longer that has another holder. The scripts check the token. So a renewal that arrives after
 *   the release does no harm, and the engine ignores what was confirmed for an earlier token.
 * - One worker serves all managers of the process that name the same module. It ends with the last of them, and keeps no process alive.
 *
 * | file | what it does |
 * |---|---|
 * | `renewer.ts` | this thread's side, for one manager |
 * | `board.ts` | the shared memory |
 * | `workers.ts` | starts the workers, and starts them again |
 * | `renewals.ts` | when the worker renews what. It has no thread and no clock of its own |
 * | `worker.ts` | the program of the worker: the module's client, and the messages |
 * | `module.ts` | the option |
 */

export { readRenewIn, type RenewInOptions } from './module.js';
export { type Renewable, Renewer, type RenewerListener } from './renewer.js';
