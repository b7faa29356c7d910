// Under Jest's fake timers with their default settings, which also replace `queueMicrotask` and `process.nextTick`.
const { LockManager, Owner } = require('leasehold');
const { MemoryServer } = require('leasehold/testing');
const holds = require('../fake-timers.cjs');

// Hours of a quorum take seconds on a busy machine.
jest.setTimeout(600_000);
holds({ afterEach, beforeEach, expect, LockManager, MemoryServer, Owner, test, timers: jest });
