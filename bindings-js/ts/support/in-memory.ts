/** How a connection of another entry point gives a manager its link. The package knows no more of it, so it loads nothing of it. */

/** Global, because a program may load this module twice. */
export const openLink: unique symbol = Symbol.for('leasehold.openLink') as never;
