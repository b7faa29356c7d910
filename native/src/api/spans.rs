//! What traces show: a span for each acquire, and one for the time that a lease is held. Metrics count the same events.

use std::fmt::Display;
use std::time::Duration;

use leasehold_core::{AcquireOptions, Family, Grant, Instant, LeaseId, LossReason, Mode, ReleaseOutcome};
use tracing::field::Empty;
use tracing::{Level, Span};

use crate::client::{Client, now};
use crate::errors::Error;
use crate::metrics;

/// What spans and metrics say about the kind of a lock. `docs/metrics.md` describes the values.
#[derive(Clone, Copy)]
pub(super) struct ModeLabel(&'static str);

impl ModeLabel {
    pub(super) fn all() -> Vec<&'static str> {
        let kinds = Family::ALL.iter().filter(|kind| **kind != Family::Lock).map(|kind| kind.code());
        ["exclusive", "shared", "multi"].into_iter().chain(kinds).collect()
    }

    pub(super) fn of(options: &AcquireOptions, several: bool) -> Self {
        Self(match (options.kind.family(), options.mode) {
            _ if several => "multi",
            (Family::Lock, Mode::Shared) => "shared",
            (Family::Lock, _) => "exclusive",
            (kind, _) => kind.code(),
        })
    }

    const fn text(self) -> &'static str {
        self.0
    }
}

/// Records how an acquire ends, in the current span. Costs a comparison if nobody listens.
pub(super) struct Acquiring {
    start: Option<Instant>,
    mode: ModeLabel,
}

impl Acquiring {
    /// The span of an acquire: see `docs/operations.md`.
    pub(super) fn span(name: &str, mode: ModeLabel) -> Span {
        tracing::info_span!(
            "leasehold.acquire",
            leasehold.lock.name = name,
            leasehold.mode = mode.text(),
            leasehold.code = Empty,
            leasehold.waited_ms = Empty,
            leasehold.fence = Empty,
            leasehold.local = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty
        )
    }

    pub(super) fn begin(mode: ModeLabel) -> Self {
        metrics::acquire_begins();
        let start = (metrics::ON || tracing::enabled!(Level::INFO)).then(now);
        Self { start, mode }
    }

    pub(super) fn granted(mut self, grant: &Grant) {
        if let Some(waited) = self.end("granted", grant.local) {
            Span::current().record("leasehold.fence", signed(grant.fence)).record("leasehold.local", grant.local);
            tracing::debug!(fence = grant.fence, ?waited, local = grant.local, "lease granted");
        }
    }

    /// The caller got the result of a once.
    pub(super) fn stored(mut self) {
        if let Some(waited) = self.end("stored", false) {
            tracing::debug!(?waited, "result found");
        }
    }

    pub(super) fn failed(mut self, error: &Error) {
        let code = error.code();
        if let Some(waited) = self.end(code, false) {
            // A lock that is busy is no failure of the program.
            if code != "busy" {
                fails(&Span::current(), error);
            }
            let holder = error.holder().map(tracing::field::display);
            tracing::debug!(code, ?waited, holder, "lease not granted");
        }
    }

    fn end(&mut self, code: &'static str, local: bool) -> Option<Duration> {
        let waited = now().since(self.start.take()?);
        metrics::acquire_ended(code, self.mode.text(), local, waited);
        Span::current().record("leasehold.code", code).record("leasehold.waited_ms", milliseconds(waited));
        Some(waited)
    }
}

/// The caller has dropped the future.
impl Drop for Acquiring {
    fn drop(&mut self) {
        self.end("cancelled", false);
    }
}

/// The span of a lease, from its grant to its end.
///
/// It is a child of the span in which the lock was asked for, so a trace has both. It is no child of the acquire's span,
/// which would then end as late as the lease. It follows from it.
pub(super) struct Holding {
    span: Span,
    since: Option<Instant>,
    mode: ModeLabel,
}

impl Holding {
    /// Begins in the acquire's span. `caller` is the span around that.
    pub(super) fn begin(name: &str, mode: ModeLabel, fence: u64, caller: &Span) -> Self {
        let span = tracing::info_span!(
            parent: caller,
            "leasehold.hold",
            leasehold.lock.name = name,
            leasehold.mode = mode.text(),
            leasehold.fence = signed(fence),
            leasehold.code = Empty,
            leasehold.held_ms = Empty,
            leasehold.reason = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty
        );
        let acquire = Span::current();
        if acquire.id() != caller.id() {
            span.follows_from(acquire);
        }
        metrics::hold_begins();
        let since = (metrics::ON || !span.is_disabled()).then(now);
        Self { span, since, mode }
    }

    /// One more hold on the lease, in the span that is current.
    pub(super) fn nested(&self, name: &str, fence: u64) -> Self {
        Self::begin(name, self.mode, fence, &Span::current())
    }

    /// The span, for the work under the lease.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// The lease has another fence.
    pub(super) fn converted(&self, fence: u64) {
        self.span.record("leasehold.fence", signed(fence));
    }

    /// Why the lease was lost, if it was and somebody listens.
    pub(super) fn loss(&self, client: &Client, lease: LeaseId) -> Option<LossReason> {
        self.since.and_then(|_| client.shared.loss(lease))
    }

    /// The hold was released. `loss` is what was known before that.
    pub(super) fn released(&mut self, outcome: Result<ReleaseOutcome, &Error>, loss: Option<LossReason>) {
        self.end(outcome.map_or_else(Error::code, ReleaseOutcome::code), loss);
    }

    /// The lease was dropped. It is released in the background, unless it was lost before.
    pub(super) fn dropped(&mut self, loss: Option<LossReason>) {
        self.end("dropped", loss);
    }

    fn end(&mut self, code: &'static str, loss: Option<LossReason>) {
        let Some(since) = self.since.take() else { return };
        let held = now().since(since);
        let closed = loss == Some(LossReason::Closed);
        let code = if closed {
            "closed"
        } else if loss.is_some() {
            "lost"
        } else {
            code
        };
        metrics::hold_ended(code, held);
        if let Some(reason) = loss.filter(|_| !closed) {
            self.span.record("leasehold.reason", reason.code());
            fails(&self.span, &format_args!("the lease was lost: {}", reason.code()));
        }
        self.span.record("leasehold.code", code).record("leasehold.held_ms", milliseconds(held));
        self.span.in_scope(|| tracing::debug!(code, ?held, "lease ended"));
        self.span = Span::none();
    }
}

/// What `tracing-opentelemetry` makes the span's status.
fn fails(span: &Span, why: &dyn Display) {
    span.record("otel.status_code", "ERROR").record("otel.status_description", tracing::field::display(why));
}

/// OpenTelemetry has no unsigned numbers, and would get a text. A fence fits in 53 bits.
fn signed(fence: u64) -> i64 {
    i64::try_from(fence).unwrap_or(i64::MAX)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
