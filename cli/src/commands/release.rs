//! `leasehold release`: gives back a lock that `leasehold acquire` has taken.
//!
//! A token is no right to release a lease, only to take it over. So this takes it over, and then releases it.

use std::time::Duration;

use serde_json::json;

use crate::args::{Release, Servers};
use crate::render::time;
use crate::report::{Failure, Outcome, Output, exit};
use crate::taking::{checked, with_holder};

/// If this process ends in the middle, or the server does, the lock is free after this time.
const TTL: Duration = Duration::from_secs(10);

pub(super) async fn run(servers: &Servers, arguments: &Release, output: Output) -> Outcome {
    let name = &arguments.name;
    let token = checked("--token", &arguments.token)?;
    // Without a label: nobody has to know who holds it for this moment.
    let locks = servers.locks_as(Some("")).await?;
    let released = async {
        let lease = locks.mutex(name).ttl(TTL).adopt(&token).await?;
        lease.release().await
    };
    let released = match released.await {
        Ok(_) => Ok(()),
        Err(error) => Err(not_released(with_holder(error, &locks, name).await)),
    };
    locks.close().await;
    released?;
    if output.json {
        output.print(|| json!({ "name": name, "released": true }), String::new)?;
    }
    Ok(0)
}

/// If the server did not answer, it may have released the lock, or the lock has this command's TTL.
fn not_released(failure: Failure) -> Failure {
    if failure.exit != exit::UNREACHABLE {
        return failure;
    }
    let remedy = format!(
        "the lock may be released already; otherwise it is free {} after this, or when its --ttl is over. {}",
        time(TTL),
        failure.remedy
    );
    Failure { remedy, ..failure }
}
