/**
 * What is out and not answered yet.
 *
 * A list and no `Set`: the tables that a set outgrows hold on to what was deleted until a full garbage collection, and with
 * thousands of short-lived entries a second that costs as much as the commands themselves.
 */
export class Flights<Flight extends { place: number }> {
  readonly #list: Flight[] = [];

  add(flight: Flight): void {
    flight.place = this.#list.push(flight) - 1;
  }

  has(flight: Flight): boolean {
    return this.#list[flight.place] === flight;
  }

  /** False if it is not there any more. */
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
