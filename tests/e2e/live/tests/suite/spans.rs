//! What traces show of an acquire and of a lease.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use leasehold::Wait;
use leasehold_live::{Tested, busy, client, options, shared_server, unique};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Instrument as _, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// The fields of a span.
type Fields = BTreeMap<&'static str, String>;

/// Listens to nothing, as long as the program runs. While there is only one dispatcher, `tracing` asks the thread that first
/// comes to a span whether anybody wants it, and remembers the answer for all threads. That may be the thread of another
/// test, where nobody listens. With two it asks all dispatchers.
static OTHER: LazyLock<Dispatch> = LazyLock::new(|| Registry::default().with(LevelFilter::OFF).into());

/// Collects the spans of the crate that have ended.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(&'static str, Fields)>>>);

impl Spans {
    fn dispatch(&self) -> Dispatch {
        LazyLock::force(&OTHER);
        Registry::default().with(self.clone()).into()
    }

    /// The fields of the spans with this name, in the order in which they ended.
    fn named(&self, name: &str) -> Vec<Fields> {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ended.iter().filter(|(ended, _)| *ended == name).map(|(_, fields)| fields.clone()).collect()
    }
}

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::new();
        attributes.record(&mut Reader(&mut fields));
        if let Some(span) = context.span(id) {
            if let Some(parent) = span.parent() {
                fields.insert("parent", parent.name().to_owned());
            }
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            record.record(&mut Reader(fields));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id)
            && span.metadata().target().starts_with("leasehold")
            && let Some(fields) = span.extensions_mut().remove::<Fields>()
        {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((span.name(), fields));
        }
    }
}

/// A time in milliseconds.
fn milliseconds(fields: &Fields, field: &str) -> f64 {
    fields[field].parse().unwrap_or_else(|_| panic!("{fields:?}"))
}

#[tokio::test]
async fn the_span_of_an_acquire_tells_how_it_ended_and_how_long_it_waited() -> Tested {
    let (spans, name) = (Spans::default(), unique("spans"));
    let _listening = tracing::dispatcher::set_default(&spans.dispatch());
    let locks = client(shared_server()).await?;
    let lease = locks.mutex(&name).acquire().await?;
    let other = client(shared_server()).await?;
    assert!(other.mutex(&name).try_acquire().await?.is_none());
    let wait = Duration::from_millis(500);
    assert_eq!(busy(other.mutex(&name), wait).await.code(), "busy");
    let waiting = other.mutex(&name).wait(Wait::Forever);
    tokio::select! {
        _ = waiting.acquire() => panic!("the lock is held"),
        () = tokio::time::sleep(Duration::from_millis(30)) => {}
    }

    let mut ended = spans.named("leasehold.acquire");
    // On a slow machine, a wait may end before the server answers. Then `busy` waited once more.
    ended.retain(|fields| fields["leasehold.code"] != "unreachable");
    let codes: Vec<&str> = ended.iter().map(|fields| &*fields["leasehold.code"]).collect();
    assert_eq!(codes, ["granted", "busy", "busy", "cancelled"]);
    assert_eq!(ended[0]["leasehold.fence"], lease.fence().to_string());
    let of_lock = |fields: &Fields| fields["leasehold.lock.name"] == name && fields["leasehold.mode"] == "exclusive";
    assert!(ended.iter().all(of_lock));
    assert!(milliseconds(&ended[2], "leasehold.waited_ms") >= wait.as_secs_f64() * 1e3, "{ended:?}");
    assert!(milliseconds(&ended[3], "leasehold.waited_ms") > 0.0 && !ended[3].contains_key("leasehold.fence"));
    assert!(ended.iter().all(|fields| !fields.contains_key("otel.status_code")), "none of these is an error");
    Ok(())
}

#[tokio::test]
async fn the_span_of_a_lease_tells_how_long_it_was_held_and_how_it_ended() -> Tested {
    let (spans, name) = (Spans::default(), unique("spans"));
    let _listening = tracing::dispatcher::set_default(&spans.dispatch());
    let locks = client(shared_server()).await?;
    let hold = Duration::from_millis(30);

    let lease = locks.mutex(&name).acquire().await?;
    let fence = lease.fence().to_string();
    tokio::time::sleep(hold).await;
    lease.release().await?;
    drop(locks.mutex(&name).acquire().await?);
    let lease = locks.mutex(&name).acquire().await?;
    locks.force_release(&name).await?;
    assert!(!lease.verify().await?);
    lease.lost().await;
    lease.release().await?;

    let ended = spans.named("leasehold.hold");
    let codes: Vec<&str> = ended.iter().map(|fields| &*fields["leasehold.code"]).collect();
    assert_eq!(codes, ["released", "dropped", "lost"]);
    assert_eq!((&ended[0]["leasehold.fence"], &ended[0]["leasehold.lock.name"]), (&fence, &name));
    assert!(milliseconds(&ended[0], "leasehold.held_ms") >= hold.as_secs_f64() * 1e3, "{ended:?}");
    assert!(["revoked", "gone"].contains(&&*ended[2]["leasehold.reason"]), "{ended:?}");
    let statuses: Vec<_> = ended.iter().map(|fields| fields.get("otel.status_code").map(String::as_str)).collect();
    assert_eq!(statuses, [None, None, Some("ERROR")]);
    Ok(())
}

#[tokio::test]
async fn several_names_are_one_span_with_the_greatest_fence() -> Tested {
    let (spans, name) = (Spans::default(), unique("spans"));
    let _listening = tracing::dispatcher::set_default(&spans.dispatch());
    let locks = options().connect(&shared_server().url()).await?;
    let lease = locks.multi([format!("{{{name}}}1"), format!("{{{name}}}2")]).acquire().await?;
    let ended = spans.named("leasehold.acquire");
    assert_eq!((ended.len(), &ended[0]["leasehold.fence"]), (1, &lease.fence().to_string()));
    Ok(())
}

#[tokio::test]
async fn wait_and_hold_are_children_of_the_callers_span() -> Tested {
    let (spans, name) = (Spans::default(), unique("spans"));
    let _listening = tracing::dispatcher::set_default(&spans.dispatch());
    let locks = client(shared_server()).await?;
    let lease = locks.mutex(&name).acquire().instrument(tracing::info_span!("request")).await?;
    lease.nested()?.release().await?;
    lease.release().await?;
    assert_eq!(spans.named("leasehold.acquire")[0].get("parent").map(String::as_str), Some("request"));
    let parents: Vec<_> = spans.named("leasehold.hold").iter().map(|fields| fields.get("parent").cloned()).collect();
    // The nested hold began where no span is.
    assert_eq!(parents, [None, Some("request".to_owned())]);
    Ok(())
}

#[tokio::test]
async fn a_conversion_changes_the_fence_of_the_span() -> Tested {
    let (spans, name) = (Spans::default(), unique("spans"));
    let _listening = tracing::dispatcher::set_default(&spans.dispatch());
    let locks = client(shared_server()).await?;
    let lease = locks.mutex(&name).acquire().await?;
    lease.downgrade().await?;
    let fence = lease.fence().to_string();
    lease.release().await?;
    assert_eq!(spans.named("leasehold.hold")[0]["leasehold.fence"], fence);
    Ok(())
}

#[tokio::test]
async fn an_acquire_that_fails_has_the_status_of_an_error() -> Tested {
    let spans = Spans::default();
    let _listening = tracing::dispatcher::set_default(&spans.dispatch());
    client(shared_server()).await?.mutex("").acquire().await.expect_err("a name is needed");
    let ended = spans.named("leasehold.acquire");
    assert_eq!((&*ended[0]["leasehold.code"], &*ended[0]["otel.status_code"]), ("invalid-option", "ERROR"));
    assert!(ended[0]["otel.status_description"].contains("name"), "{ended:?}");
    Ok(())
}
