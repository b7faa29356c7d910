//! `leasehold forget`: deletes a result, so that the next caller does the work again.

use serde_json::json;

use crate::args::Servers;
use crate::render::shown;
use crate::report::{Outcome, Output};

pub(super) async fn run(servers: &Servers, name: &str, output: Output) -> Outcome {
    let locks = servers.locks().await?;
    let forgotten = locks.forget(name).await?;
    locks.close().await;
    output.print(
        || json!({ "name": name, "forgotten": forgotten }),
        || match forgotten {
            true => format!("{}: deleted", shown(name)),
            false => format!("{}: no result. Check the name and --prefix.", shown(name)),
        },
    )?;
    Ok(0)
}
