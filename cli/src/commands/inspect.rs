//! `leasehold inspect`: who holds a lock, and who waits for it.

use crate::args::Servers;
use crate::kinds::kind;
use crate::render::{has_kind, object, text};
use crate::report::{Outcome, Output};

pub(super) async fn run(servers: &Servers, name: &str, output: Output) -> Outcome {
    let locks = servers.locks().await?;
    let seen = locks.inspect(name).await?;
    let kind = if has_kind(&seen) { kind(servers, name).await } else { None };
    output.print(|| object(name, &seen, kind.as_ref()), || text(name, &seen, kind.as_ref()))?;
    Ok(0)
}
