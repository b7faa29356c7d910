/** The clocks of the host. The engine makes one clock of them, which also counts the time in which the machine was suspended. */

import { HOST_TIME } from '../support/timers.js';

/** Both count milliseconds. Tests bring their own. */
export interface HostClocks {
  /** Never steps, but may stop while the machine is suspended. */
  monotonic(): number;
  /** Goes on while the machine is suspended, but may be set to another time. */
  wall(): number;
}

// Read once, because a lookup of this global runs code, and fake timers replace it.
const { Date: Wall } = globalThis;
export const HOST_CLOCKS: HostClocks = { monotonic: () => HOST_TIME.now(), wall: () => Wall.now() };
