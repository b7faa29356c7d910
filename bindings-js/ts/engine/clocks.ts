/** The clocks of the host. The engine makes one clock of them, which also counts the time in which the machine was suspended. */

/** Both count milliseconds. Tests bring their own. */
export interface HostClocks {
  /** Never steps, but may stop while the machine is suspended. */
  monotonic(): number;
  /** Goes on while the machine is suspended, but may be set to another time. */
  wall(): number;
}

// Read once, because a lookup of these globals runs code.
const { performance, Date: Wall } = globalThis;
export const HOST_CLOCKS: HostClocks = { monotonic: () => performance.now(), wall: () => Wall.now() };
