//! `leasehold doctor`.
use crate::args::{Doctor, Servers};
use crate::report::{Outcome, Output};

pub(crate) async fn run(_: &Servers, _: &Doctor, _: Output) -> Outcome {
    Ok(0)
}
