/**
 * A map from numbers that count up.
 *
 * A `Map` makes a new table after every few deletions, and the old table refers to the new one. Once one of them is in the old generation,
 * it keeps all later ones and their entries alive until a full garbage collection. That would cost as much as the rest of a lock. Here,
 * a table is made only when the map grows or shrinks.
 */
export class IdMap<Value extends object> {
  /** By hash, with linear probing. A free place has no value. */
  #ids: number[] = places(0);
  #values: (Value | undefined)[] = places(undefined);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(id: number): Value | undefined {
    return this.#values[this.#find(id)];
  }

  set(id: number, value: Value): void {
    const at = this.#find(id);
    const isNew = this.#values[at] === undefined;
    this.#ids[at] = id;
    this.#values[at] = value;
    if (isNew && ++this.#size * 2 > this.#values.length) this.#resize(this.#values.length * 2);
  }

  delete(id: number): boolean {
    let free = this.#find(id);
    const values = this.#values;
    if (values[free] === undefined) return false;
    values[free] = undefined;
    this.#size--;
    const mask = values.length - 1;
    // The entries behind it that belong at its place or before move forward, so that they are found.
    for (let at = (free + 1) & mask; values[at] !== undefined; at = (at + 1) & mask) {
      const id = this.#ids[at] as number;
      if (((at - id) & mask) < ((at - free) & mask)) continue;
      this.#ids[free] = id;
      values[free] = values[at];
      values[at] = undefined;
      free = at;
    }
    if (values.length > LEAST && this.#size * 8 < values.length) this.#resize(values.length / 2);
    return true;
  }

  clear(): void {
    this.#ids = places(0);
    this.#values = places(undefined);
    this.#size = 0;
  }

  /** The entries by their numbers, the least first. What is added or deleted meanwhile changes nothing. */
  entries(): [number, Value][] {
    const entries: [number, Value][] = [];
    this.#values.forEach((value, at) => value !== undefined && entries.push([this.#ids[at] as number, value]));
    return entries.sort(([a], [b]) => a - b);
  }

  /** The values by their numbers, the least first. */
  values(): Value[] {
    return this.entries().map(([, value]) => value);
  }

  /** Any value that matches, without a copy. The map must not change meanwhile. */
  find(matches: (value: Value) => boolean): Value | undefined {
    for (const value of this.#values) if (value !== undefined && matches(value)) return value;
    return undefined;
  }

  /** The place of a number, or the free place where it belongs. */
  #find(id: number): number {
    const mask = this.#values.length - 1;
    let at = id & mask;
    while (this.#values[at] !== undefined && this.#ids[at] !== id) at = (at + 1) & mask;
    return at;
  }

  #resize(length: number): void {
    const [ids, values] = [this.#ids, this.#values];
    this.#ids = places(0, length);
    this.#values = places(undefined, length);
    values.forEach((value, from) => {
      if (value === undefined) return;
      const id = ids[from] as number;
      const at = this.#find(id);
      this.#ids[at] = id;
      this.#values[at] = value;
    });
  }
}

/** The least length of the tables, a power of two as all of them. */
const LEAST = 16;

function places<Item>(item: Item, length = LEAST): Item[] {
  return new Array<Item>(length).fill(item);
}
