/** The map from numbers does what a `Map` does. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import fc from 'fast-check';
import { IdMap } from './id-map.js';

test('it_has_what_a_map_has_in_the_order_of_the_numbers', () => {
  const id = fc.oneof(fc.nat(64), fc.nat(4).map((high) => 2 ** 40 + high * 16), fc.maxSafeNat());
  const step = fc.tuple(id, fc.boolean());
  fc.assert(fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
    const [map, expected] = [new IdMap<{ n: number }>(), new Map<number, { n: number }>()];
    for (const [id, adds] of steps) {
      const value = { n: id };
      if (adds) {
        map.set(id, value);
        expected.set(id, value);
      } else {
        assert.equal(map.delete(id), expected.delete(id));
      }
      assert.equal(map.size, expected.size);
      assert.equal(map.get(id), expected.get(id));
    }
    assert.deepEqual(map.entries(), [...expected].sort(([a], [b]) => a - b));
    for (const value of expected.values()) assert.equal(map.find((one) => one === value), value);
    assert.equal(map.find(({ n }) => n === -1), undefined);
    map.clear();
    assert.deepEqual([map.size, map.values()], [0, []]);
  }));
});

test('it_grows_and_shrinks', () => {
  const map = new IdMap<object>();
  for (let id = 1; id <= 10_000; id++) map.set(id, { id });
  for (let id = 1; id <= 10_000; id += 2) assert.ok(map.delete(id));
  for (let id = 1; id <= 10_000; id++) assert.deepEqual(map.get(id), id % 2 === 0 ? { id } : undefined);
  for (let id = 2; id < 10_000; id += 2) assert.ok(map.delete(id));
  assert.deepEqual(map.values(), [{ id: 10_000 }]);
});
