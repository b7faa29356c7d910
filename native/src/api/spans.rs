//! What traces show: a span for each acquire, and one for the time that a lease is held. Metrics count the same events.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Grant, Instant, LeaseId, LossReason, ReleaseOutcome};
use tracing::field::Empty;
use tracing::{Level, Span};

use crate::client::{Client, now};
use crate::errors::Error;
use crate::metrics::{self, ModeLabel};

/// Records how an acquire ends, in the current span. Costs a comparison if nobody listens.
pub(super) struct Acquiring {
    start: Option<Instant>,
    mode: ModeLabel,
}

impl Acquiring {
    /// The span of an acquire: see `docs/operations.md`.
    pub(super) fn span(name: &str, mode: leasehold_core::Mode) -> Span {
        tracing::info_span!(
            "leasehold.acquire",
            name,
            ?mode,
            code = Empty,
            waited = Empty,
            fence = Empty,
            local = Empty
        )
    }

    pub(super) fn begin(options: &AcquireOptions, several: bool) -> Self {
        metrics::acquire_begins();
        let start = (metrics::ON || tracing::enabled!(Level::INFO)).then(now);
        Self { start, mode: ModeLabel::of(options, several) }
    }

    pub(super) fn granted(mut self, grant: &Grant) {
        if let Some(waited) = self.end("ok", grant.local) {
            Span::current().record("fence", grant.fence).record("local", grant.local);
            tracing::debug!(fence = grant.fence, ?waited, local = grant.local, "lease granted");
        }
    }

    pub(super) fn failed(mut self, error: &Error) {
        if let Some(waited) = self.end(error.code(), false) {
            tracing::debug!(code = error.code(), ?waited, "lease not granted");
        }
    }

    fn end(&mut self, code: &'static str, local: bool) -> Option<Duration> {
        let start = self.start.take()?;
        let waited = now().since(start);
        metrics::acquire_ended(if code == "ok" { "granted" } else { code }, self.mode, local, waited);
        Span::current().record("code", code).record("waited", waited.as_secs_f64());
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
/// It is no child of the acquire's span, which would then end as late as the lease. It follows from it.
pub(super) struct Holding {
    span: Span,
    since: Option<Instant>,
}

impl Holding {
    pub(super) fn begin(name: &str, fence: u64) -> Self {
        let span = tracing::info_span!(
            parent: None,
            "leasehold.hold",
            name,
            fence,
            code = Empty,
            held = Empty,
            reason = Empty
        );
        span.follows_from(Span::current());
        metrics::hold_begins();
        let since = (metrics::ON || !span.is_disabled()).then(now);
        Self { span, since }
    }

    /// Why the lease was lost, if it was and somebody listens.
    pub(super) fn loss(&self, client: &Client, lease: LeaseId) -> Option<LossReason> {
        self.since.and_then(|_| client.shared.loss(lease))
    }

    /// The hold was released. `loss` is what was known before that.
    pub(super) fn released(&mut self, outcome: Result<ReleaseOutcome, &Error>, loss: Option<LossReason>) {
        let code = match outcome {
            Ok(ReleaseOutcome::Released) => "released",
            Ok(ReleaseOutcome::StillHeld) => "still-held",
            Ok(ReleaseOutcome::AlreadyExpired) => "already-expired",
            Ok(_) => "not-owner",
            Err(error) => error.code(),
        };
        self.end(code, loss);
    }

    /// The lease was dropped. It is released in the background, unless it was lost before.
    pub(super) fn dropped(&mut self, loss: Option<LossReason>) {
        self.end("dropped", loss);
    }

    fn end(&mut self, code: &'static str, loss: Option<LossReason>) {
        let Some(since) = self.since.take() else { return };
        let held = now().since(since);
        let code = if loss.is_some() { "lost" } else { code };
        metrics::hold_ended(code, held);
        if let Some(reason) = loss {
            self.span.record("reason", reason.code());
        }
        self.span.record("code", code).record("held", held.as_secs_f64());
        self.span.in_scope(|| tracing::debug!(code, ?held, "lease ended"));
        self.span = Span::none();
    }
}
