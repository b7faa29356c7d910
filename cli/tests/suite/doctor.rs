//! `leasehold doctor`.
