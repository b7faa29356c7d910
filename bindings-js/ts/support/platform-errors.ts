/** Errors as the platform's own APIs throw them. */

import type { LeaseholdError } from './errors.js';

/**
 * A `DOMException` of this name, for calls that behave as a platform's API does. Its `code` is the platform's number. Its `cause` is
 * the error of this package.
 */
export function platformError(name: 'AbortError' | 'NotSupportedError', cause: LeaseholdError): DOMException {
  const error = new DOMException(cause.message, name);
  return Object.defineProperty(error, 'cause', { configurable: true, enumerable: false, writable: true, value: cause });
}
