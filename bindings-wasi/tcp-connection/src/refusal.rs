//! What this provider can't do, and what to use instead: TLS, clusters and Sentinel.

use crate::bindings::exports::leasehold::lock::connection::Failure;

/// `servers` is the topology `cluster`.
pub(crate) fn cluster_topology() -> Failure {
    unsupported("topology `cluster`: this component doesn't follow a cluster's redirections", OUTSIDE, "to clusters")
}

/// `servers` is the topology `sentinel`.
pub(crate) fn sentinel_topology() -> Failure {
    unsupported(
        "topology `sentinel`: this component doesn't ask Sentinels for the primary",
        PRIMARY,
        "through Sentinel",
    )
}

/// The address begins with a scheme that asks for TLS.
pub(crate) fn tls(scheme: &str) -> Failure {
    let problem = format!("the server's address begins with `{scheme}://`, and this component has no TLS");
    unsupported(
        &problem,
        "run a TLS proxy such as stunnel beside the component and give its `redis://` address",
        "with TLS",
    )
}

/// The server is a node of a cluster.
pub(crate) fn cluster_node(server: &str) -> Failure {
    let problem =
        format!("{server} is a node of a cluster, and this component doesn't follow a cluster's redirections");
    unsupported(&problem, OUTSIDE, "to clusters")
}

/// The server is a Sentinel, which has no locks.
pub(crate) fn sentinel(server: &str) -> Failure {
    let problem = format!("{server} is a Sentinel, and this component doesn't ask Sentinels for the primary");
    unsupported(&problem, PRIMARY, "through Sentinel")
}

/// The server answered a command with an error. Only a node of a cluster answers with one of these codes, and it did not
/// run the command. `CLUSTERDOWN` is none of them, because it passes, and a proxy in front of a cluster answers it, too.
pub(crate) fn of_command(text: String) -> Failure {
    if ["MOVED ", "ASK "].iter().any(|code| text.starts_with(code)) {
        cluster_node(&format!("the server, which answered `{text}`,"))
    } else {
        Failure::Refused(text)
    }
}

const OUTSIDE: &str = "use `single` or `quorum` with servers that belong to no cluster";
const PRIMARY: &str = "give the primary's own address in `single`, which follows no failover";

fn unsupported(problem: &str, instead: &str, connections: &str) -> Failure {
    Failure::Unsupported(format!("{problem}; {instead}, or `lock.wasm` in a host that connects {connections}"))
}
