//! What the feature `metrics` records. `docs/metrics.md` describes each metric.
//!
//! A lock's name is never a label: a service may use any number of names, and each would be a time series of its own.
//! Without the feature, every function is empty and every type has no size.

/// Whether anything is recorded. Callers read the clock only if it is, or if a trace needs it.
pub(crate) const ON: bool = cfg!(feature = "metrics");

pub(crate) use recording::{
    Sent, acquire_begins, acquire_ended, begin, hold_begins, hold_ended, lease_lost, reconnected,
};

#[cfg(feature = "metrics")]
mod recording {
    use std::time::Duration;

    use leasehold_core::{Command, ErrorCode, LossReason};
    use leasehold_lua::{BATCH, RENEW, reentrant, semaphore};
    use metrics::{
        Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram as describe_times,
        gauge, histogram,
    };

    /// Declares the metrics: name, what describes it, unit and meaning.
    macro_rules! table {
        ($($metric:ident $name:literal $describe:ident $unit:ident $about:literal;)+) => {
            $(const $metric: &str = $name;)+

            fn describe() {
                $($describe!($metric, Unit::$unit, $about);)+
            }
        };
    }

    table! {
        ACQUIRES "leasehold_acquires_total" describe_counter Count "Acquires that have ended, by their outcome";
        LOSSES "leasehold_losses_total" describe_counter Count "Leases that were lost, by the reason";
        RENEWALS "leasehold_renewals_total" describe_counter Count "Renewals that were sent, with retries and extends";
        COMMANDS "leasehold_commands_total" describe_counter Count "Commands that were sent";
        RECONNECTS "leasehold_reconnects_total" describe_counter Count "Connections for commands that were made again after a break";
        WAIT "leasehold_wait_seconds" describe_times Seconds "How long an acquire took, by its outcome";
        HOLD "leasehold_hold_seconds" describe_times Seconds "How long a lease was held, by how it ended";
        HELD "leasehold_held" describe_gauge Count "Leases that the program has now";
        WAITING "leasehold_waiting" describe_gauge Count "Acquires that have not ended yet";
    }

    /// Tells the recorder what each metric means, and begins the series. A manager calls it when it connects.
    ///
    /// Prometheus doesn't count the first value of a series as an increase. Without a 0 before it, an alert would miss the
    /// first loss.
    pub(crate) fn begin(modes: &[&'static str]) {
        describe();
        for &mode in modes {
            for local in [true, false] {
                acquires("granted", mode, local).increment(0);
            }
            // An acquire can end without a lease by all of them but a conversion's.
            if mode == "once" {
                acquires("stored", mode, false).increment(0);
            }
            for code in ErrorCode::ALL.iter().filter(|code| **code != ErrorCode::Conflict) {
                acquires(code.code(), mode, false).increment(0);
            }
            // Only this one has an alert, and a histogram has many series.
            drop(waits("granted", mode));
        }
        for reason in LossReason::ALL {
            losses(*reason).increment(0);
        }
        for metric in [RENEWALS, COMMANDS, RECONNECTS] {
            counter!(metric).increment(0);
        }
        for metric in [HELD, WAITING] {
            gauge!(metric).increment(0);
        }
    }

    fn acquires(code: &'static str, mode: &'static str, local: bool) -> Counter {
        counter!(ACQUIRES, "code" => code, "mode" => mode, "local" => if local { "true" } else { "false" })
    }

    fn waits(code: &'static str, mode: &'static str) -> Histogram {
        histogram!(WAIT, "code" => code, "mode" => mode)
    }

    fn losses(reason: LossReason) -> Counter {
        counter!(LOSSES, "reason" => reason.code())
    }

    pub(crate) fn acquire_begins() {
        gauge!(WAITING).increment(1);
    }

    /// `local` is whether the lock was handed over inside this process, without the server.
    pub(crate) fn acquire_ended(code: &'static str, mode: &'static str, local: bool, waited: Duration) {
        gauge!(WAITING).decrement(1);
        acquires(code, mode, local).increment(1);
        waits(code, mode).record(waited);
    }

    pub(crate) fn hold_begins() {
        gauge!(HELD).increment(1);
    }

    pub(crate) fn hold_ended(code: &'static str, held: Duration) {
        gauge!(HELD).decrement(1);
        histogram!(HOLD, "code" => code).record(held);
    }

    pub(crate) fn lease_lost(reason: LossReason) {
        losses(reason).increment(1);
    }

    pub(crate) fn reconnected() {
        counter!(RECONNECTS).increment(1);
    }

    /// Counts the commands that leave at one moment.
    pub(crate) struct Sent {
        commands: u64,
        renewals: u64,
    }

    impl Sent {
        pub(crate) const fn none() -> Self {
            Self { commands: 0, renewals: 0 }
        }

        pub(crate) fn add(&mut self, command: &Command) {
            self.commands += 1;
            self.renewals += renewals(command);
        }

        pub(crate) fn record(self) {
            if self.commands > 0 {
                counter!(COMMANDS).increment(self.commands);
            }
            if self.renewals > 0 {
                counter!(RENEWALS).increment(self.renewals);
            }
        }
    }

    /// How many renewals a command carries. `lua/renew.lua` and `lua/batch.lua` describe the words.
    fn renewals(command: &Command) -> u64 {
        let mut words = command.words().skip(1);
        let (Some(script), Some(keys)) = (words.next(), words.next()) else { return 0 };
        let keys = std::str::from_utf8(keys).ok().and_then(|keys| keys.parse().ok()).unwrap_or(usize::MAX);
        let mut arguments = words.skip(keys);
        if script == BATCH.sha1.as_bytes() || script == BATCH.source.as_bytes() {
            return in_batch(arguments.skip(1));
        }
        // Only by the digest: a renewal with the script's text follows one that the server did not understand.
        let renews = [RENEW, reentrant::RENEW, semaphore::RENEW].iter().any(|one| script == one.sha1.as_bytes());
        // A renewal by 0 only asks whether the lease is still there.
        u64::from(renews && arguments.nth(1).is_some_and(|ttl| ttl != b"0"))
    }

    /// The renewals among a batch's entries.
    fn in_batch<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> u64 {
        let mut renewals = 0;
        while let Some(what) = arguments.next() {
            renewals += u64::from(what.starts_with(b"renew"));
            let rest = match what {
                b"permit" => 3,
                b"release" | b"release-reentrant" | b"unshare" | b"unpermit" => 1,
                _ => 2,
            };
            arguments.nth(rest - 1);
        }
        renewals
    }

    #[cfg(test)]
    mod tests {
        use super::in_batch;

        #[test]
        fn a_batch_has_as_many_renewals_as_it_has_entries_that_renew() {
            let count = |words: &str| in_batch(words.split(' ').map(str::as_bytes));
            assert_eq!(count("renew a:1 5000"), 1);
            assert_eq!(count("acquire renew 5000 release renew"), 0);
            assert_eq!(count("permit renew 5000 1/2 unpermit renew share renew 5000 unshare renew"), 0);
            assert_eq!(
                count("renew-permit a:1 5000 renew-share a:2 5000 permit a:3 5000 1/2 renew-reentrant a:4 5000"),
                3
            );
            assert_eq!(count("release-reentrant renew renew a:1 5000 acquire-reentrant renew 5000"), 1);
            assert_eq!(count("renew a:1 5000 acquire a:2 5000 release a:3 renew a:4 5000"), 2);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod recording {
    use std::time::Duration;

    use leasehold_core::{Command, LossReason};

    #[inline(always)]
    pub(crate) const fn begin(_: &[&'static str]) {}

    #[inline(always)]
    pub(crate) const fn acquire_begins() {}

    #[inline(always)]
    pub(crate) const fn acquire_ended(_: &'static str, _: &'static str, _: bool, _: Duration) {}

    #[inline(always)]
    pub(crate) const fn hold_begins() {}

    #[inline(always)]
    pub(crate) const fn hold_ended(_: &'static str, _: Duration) {}

    #[inline(always)]
    pub(crate) const fn lease_lost(_: LossReason) {}

    #[inline(always)]
    pub(crate) const fn reconnected() {}

    pub(crate) struct Sent;

    impl Sent {
        #[inline(always)]
        pub(crate) const fn none() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) const fn add(&mut self, _: &Command) {}

        #[inline(always)]
        pub(crate) fn record(self) {}
    }
}
