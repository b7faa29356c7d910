// Under Jest's fake timers with their default settings, which also replace `queueMicrotask` and `process.nextTick`.
const { LockManager, Owner } = require('leasehold');
const { MemoryServer } = require('leasehold/testing');
const holds = require('../fake-timers.cjs');

holds({ afterEach, beforeEach, expect, LockManager, MemoryServer, Owner, test, timers: jest });
