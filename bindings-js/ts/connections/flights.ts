/**
 * The commands that were sent and are not answered yet.
 *
 * This is an array instead of a `Set`. When a set grows, its old table keeps deleted entries alive until a full garbage
 * collection. With thousands of short-lived entries a second, that costs as much as the commands themselves.
 */
export class Flights<Flight extends { place: number }> {
  readonly #list: Flight[] = [];

  add(flight: Flight): void {
    flight.place = this.#list.push(flight) - 1;
  }

  has(flight: Flight): boolean {
    return this.#list[flight.place] === flight;
  }

  /** Removes a flight. Returns false if it was removed before. */
  delete(flight: Flight): boolean {
    if (!this.has(flight)) return false;
    const last = this.#list.pop();
    if (last !== undefined && last !== flight) {
      this.#list[flight.place] = last;
      last.place = flight.place;
    }
    flight.place = -1;
    return true;
  }

  all(): Flight[] {
    return [...this.#list];
  }
}
