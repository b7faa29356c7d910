use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use leasehold_servers::{Error, Server};

use super::single::{proxy_error, strike_proxy, strike_server};
use super::{FaultLog, Topology, chosen};
use crate::faults::{Fault, Step};
use crate::proxy::Proxy;
use crate::worker::LONGEST_TTL;

/// Three servers, each behind a proxy. Nothing that happens to one of them may let two clients hold a lock.
pub(super) struct Members {
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
}

impl Members {
    pub(super) fn start() -> Result<Self, Error> {
        let servers = (0..3).map(|_| Server::start()).collect::<Result<Vec<_>, _>>()?;
        let proxies = servers.iter().map(|server| Proxy::start(server.address()).map_err(proxy_error));
        let proxies = proxies.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { servers, proxies })
    }
}

impl Topology for Members {
    fn urls(&self) -> Vec<String> {
        self.proxies.iter().map(Proxy::url).collect()
    }

    fn watched(&self) -> Vec<(String, SocketAddr)> {
        self.servers.first().map(|server| (format!("server {}", server.port()), server.address())).into_iter().collect()
    }

    fn strike(&mut self, step: &Step, log: &mut FaultLog) -> Result<(), Error> {
        let place = step.pick % self.servers.len();
        match step.fault {
            Fault::MemberDown => {
                let Some(server) = self.servers.get_mut(place) else { return Ok(()) };
                let struck = log.began(step.fault, &format!("server {}", server.port()));
                server.stop();
                // It comes back without data. If a lease counted on it, that lease has ended by then. If it came back
                // earlier, a bare majority that it belonged to would no longer be one.
                thread::sleep(LONGEST_TTL + Duration::from_millis(500));
                server.restart()?;
                struck.ended();
                Ok(())
            }
            Fault::MajorityPause => {
                let others: Vec<&Server> =
                    self.servers.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, server)| server).collect();
                let struck = log.began(step.fault, &format!("all but server {place}"));
                others.iter().try_for_each(|server| server.pause())?;
                thread::sleep(step.lasts);
                others.iter().try_for_each(|server| server.resume())?;
                struck.ended();
                Ok(())
            }
            Fault::Delay | Fault::Drop | Fault::Halve | Fault::Duplicate => {
                if let (Some(proxy), Some(server)) = (self.proxies.get(place), self.servers.get(place)) {
                    strike_proxy(proxy, step, &format!("server {}", server.port()), log);
                }
                Ok(())
            }
            _ => chosen(&self.servers, step.pick).map_or(Ok(()), |server| strike_server(server, step, log)),
        }
    }

    fn notice(&mut self, _: &mut FaultLog) -> Result<(), Error> {
        Ok(())
    }
}
