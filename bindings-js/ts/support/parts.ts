/**
 * The parts of the package that a bundle or a Worker has only if the program imports them, because few programs need them. Their entry
 * points, `leasehold/quorum` and `leasehold/renew-in`, put them here. This file stays separate in `dist`.
 */
export const parts: Partial<Record<PartName, () => unknown>> = {};

export type PartName = 'quorum' | 'renewer';
