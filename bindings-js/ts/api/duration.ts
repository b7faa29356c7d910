/** Durations in the form that users write. */

import { InvalidOptionError } from '../support/errors.js';
import { shown } from '../support/format.js';

/**
 * A duration: a number of milliseconds, or a string with a unit: `'500ms'`, `'30s'`, `'5m'`, `'1h'`, `'2d'`.
 */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const TEXT = /^(\d+(?:\.\d+)?) ?(ms|s|m|h|d)$/;

/** Converts a duration to milliseconds. The engine checks its bounds. */
export function milliseconds(field: string, value: unknown): number {
  const millis = typeof value === 'string' ? ofText(value) : value;
  if (typeof millis === 'number' && millis >= 0 && millis <= Number.MAX_SAFE_INTEGER) return millis;
  throw new InvalidOptionError(field, `is ${shown(value)}: give milliseconds, or a string like '30s', '500ms', '5m', '1h'`);
}

function ofText(text: string): number | undefined {
  const [, number, unit] = TEXT.exec(text) ?? [];
  return number === undefined || unit === undefined ? undefined : Number(number) * (UNITS[unit] ?? NaN);
}
