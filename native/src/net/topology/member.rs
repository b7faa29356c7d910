//! A member of a quorum: one server, the primary behind Sentinel, or a cluster.

use std::time::Duration;

use super::checks::MemberCheck;
use super::endpoint::Endpoint;
use super::server::Server;

pub(crate) enum Member {
    Server(Server),
    /// The primary that the sentinels monitor as `service`. `template` says how to connect to it.
    Sentinel {
        service: String,
        sentinels: Vec<Server>,
        template: Server,
    },
    /// Some servers of a cluster.
    Cluster(Vec<Server>),
}

impl Member {
    /// The name for votes, without passwords. Each member has another one.
    pub(crate) fn name(&self) -> String {
        let first = |servers: &[Server]| servers.first().map(Server::address).unwrap_or_default();
        match self {
            Self::Server(server) => server.address(),
            Self::Sentinel { service, sentinels, .. } => format!("`{service}` of sentinel {}", first(sentinels)),
            Self::Cluster(seeds) => format!("cluster {}", first(seeds)),
        }
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Where to connect. Every connection is checked.
    pub(in crate::net) fn endpoint(self, check: MemberCheck, response_timeout: Duration) -> Endpoint {
        match self {
            Self::Server(server) => Endpoint::server(server.with_check(check)),
            Self::Sentinel { service, sentinels, template } => {
                let template = template.with_check(check.behind_sentinel());
                Endpoint::sentinel(service, sentinels, template, response_timeout)
            }
            Self::Cluster(seeds) => {
                let check = check.of_cluster();
                Endpoint::cluster(seeds.into_iter().map(|seed| seed.with_check(check.clone())).collect())
            }
        }
    }
}
