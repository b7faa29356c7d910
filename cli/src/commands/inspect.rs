//! `leasehold inspect`: who holds a lock, and who waits for it.

use crate::args::Servers;
use crate::render::{object, text};
use crate::report::{Outcome, Output};

pub(super) async fn run(servers: &Servers, name: &str, output: Output) -> Outcome {
    let locks = servers.locks().await?;
    let seen = locks.inspect(name).await?;
    output.print(|| object(name, &seen), || text(name, &seen))?;
    Ok(0)
}
