//! `leasehold inspect`: who holds a lock, and who waits for it.

use crate::args::Servers;
use crate::kinds::{done, kind};
use crate::render::{has_kind, object, text};
use crate::report::{Outcome, Output};

pub(super) async fn run(servers: &Servers, name: &str, output: Output) -> Outcome {
    let locks = servers.locks().await?;
    let seen = locks.inspect(name).await?;
    let kind = match seen.holders.is_empty() {
        true => done(servers, name).await,
        false if has_kind(&seen) => kind(servers, name).await,
        false => None,
    };
    output.print(|| object(name, &seen, kind.as_ref()), || text(name, &seen, kind.as_ref()))?;
    Ok(0)
}
