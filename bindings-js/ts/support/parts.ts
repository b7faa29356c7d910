/**
 * The parts of the package that a bundle or a Worker has only if the program imports them, because few programs need them. Their entry
 * points put them here: `leasehold/quorum` and `leasehold/renew-in`. A file of its own in `dist`.
 */
export const parts: Partial<Record<PartName, () => unknown>> = {};

export type PartName = 'quorum' | 'renewer';
