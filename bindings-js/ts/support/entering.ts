/** What `leasehold/opentelemetry` needs and no program should use: to run the work of leases in a context of its own. */

/** Runs the work of a lease, at once. `lease` is its number in the manager, as in events. */
export type Entering = <T>(lease: number, work: () => T) => T;

/** The method of a manager that takes one, and returns a function that removes it. The entry points have a copy of this file each. */
export const enteringSymbol: unique symbol = Symbol.for('leasehold.entering') as never;
