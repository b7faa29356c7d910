// Under Vitest's fake timers with their default settings.
import { createRequire } from 'node:module';
import { LockManager, Owner } from 'leasehold';
import { MemoryServer } from 'leasehold/testing';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

const holds = createRequire(import.meta.url)('../fake-timers.cjs');

// Hours of a quorum take seconds on a busy machine.
vi.setConfig({ testTimeout: 600_000 });
holds({ afterEach, beforeEach, expect, LockManager, MemoryServer, Owner, test, timers: vi });
