use std::time::{Duration, Instant};

use serde_json::json;

use crate::Result;
use crate::clock::own_cpu;
use crate::contender::Contender;
use crate::report::Report;
use crate::server::Bench;

const LEASES: usize = 10_000;
const TTL: Duration = Duration::from_secs(30);
/// Two rounds of renewals.
const TIME: Duration = Duration::from_secs(20);

/// Many leases that are held and renewed.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result {
    report.title(&format!("{LEASES} leases of {TTL:?}, held and renewed"));
    let began = Instant::now();
    let mut leases = Vec::new();
    for lease in 0..LEASES {
        let lock = bench.clients.locks().mutex(format!("kept-{lease}")).ttl(TTL);
        leases.push(tokio::spawn(async move { lock.acquire().await }));
    }
    let mut held = Vec::new();
    for lease in leases {
        held.push(lease.await??);
    }
    report.line(format_args!("acquired within {:.2?}", began.elapsed()));

    let (before, own_before, began) = (bench.spent()?, own_cpu(), Instant::now());
    bench.log_slow_calls()?;
    bench.clients.set_for(TIME).await?;
    let (after, seconds) = (bench.spent()?, began.elapsed().as_secs_f64());
    let own = own_cpu().saturating_sub(own_before).as_secs_f64() / seconds;
    let servers = after.cpu_since(&before).as_secs_f64() / seconds;
    let commands = after.commands_since(&before, Contender::Leasehold) as f64 / seconds;
    let lost = held.iter().filter(|lease| !lease.is_held()).count();

    report.line(format_args!(
        "{commands:.0} commands/s, client {:.1} % and server {:.1} % of a core, {lost} lost",
        own * 100.0,
        servers * 100.0
    ));
    let (longest, bare) = (bench.longest_call("EVALSHA")?, bench.longest_call("SET")?);
    report.line(format_args!("longest call in the server's slow log: {longest:?}; of a bare SET beside it: {bare:?}"));
    report.add(
        "renewals",
        json!({ "leases": LEASES, "ttl_ms": TTL.as_millis() as u64, "commands_per_s": commands,
                "client_cpu": own, "server_cpu": servers, "lost": lost,
                "longest_call_us": longest.as_micros() as u64, "longest_set_us": bare.as_micros() as u64 }),
    );
    bench.clients.locks().close().await;
    Ok(())
}
