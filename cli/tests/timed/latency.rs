//! `leasehold doctor` measures the latency of a server.

use leasehold_servers::Server;

use crate::common::{Tested, run, text};

#[test]
fn the_latency_of_a_server_on_the_same_machine_is_good() -> Tested {
    let server = Server::start()?;
    let shown = text(&run(&server, &["--json", "doctor"])?.stdout);
    let latency = shown.lines().find(|line| line.contains(r#""check":"latency""#)).ok_or(shown.clone())?;
    assert!(latency.contains(r#""verdict":"ok""#), "{latency}");
    Ok(())
}
