/** The random inputs of a property: how many, or for how long. */

/** Milliseconds for each property, with random seeds. Without it, each runs with the same inputs every time. */
const TIME = Number(process.env['LEASEHOLD_FUZZ_MS'] ?? 0);

export function runs(numRuns: number): { numRuns: number; seed?: number; interruptAfterTimeLimit?: number } {
  return TIME > 0 ? { numRuns: Number.MAX_SAFE_INTEGER, interruptAfterTimeLimit: TIME } : { numRuns, seed: 1 };
}
