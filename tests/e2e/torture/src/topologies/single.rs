use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use leasehold_servers::{Builder, Error, Server, follow, promote};

use super::{FaultLog, Topology, kill_clients, says, until};
use crate::faults::{Fault, Step};
use crate::history::now;
use crate::proxy::{Behaviour, Proxy};

/// A server with a replica. Clients reach it through a proxy, as through an address that moves with a failover. Both
/// servers write every command to a file before they answer, so a restart keeps the data.
pub(super) struct Single {
    /// The primary first.
    servers: [Server; 2],
    proxy: Proxy,
}

impl Single {
    pub(super) fn start() -> Result<Self, Error> {
        let servers = [durable().start()?, durable().start()?];
        follow(&servers[1], &servers[0])?;
        let proxy = Proxy::start(servers[0].address()).map_err(proxy_error)?;
        Ok(Self { servers, proxy })
    }

    fn fail_over(&mut self, log: &mut FaultLog) -> Result<(), Error> {
        self.is_ready()?;
        let struck = log.began(Fault::Failover, &self.name());
        promote(&self.servers[1])?;
        self.proxy.lead_to(self.servers[1].address());
        struck.ended_with_losses();
        self.servers.swap(0, 1);
        follow(&self.servers[1], &self.servers[0])
    }

    /// Kills the server between two commands, and lets it read its file.
    fn restart(&mut self, step: &Step, log: &mut FaultLog) -> Result<(), Error> {
        self.is_ready()?;
        let struck = log.began(step.fault, &self.name());
        self.servers[0].stop();
        let from = now();
        thread::sleep(step.lasts);
        struck.was_down(from);
        self.servers[0].restart()?;
        struck.ended();
        Ok(())
    }

    /// Waits until the replica follows, and until nothing rewrites the files.
    fn is_ready(&self) -> Result<(), Error> {
        until("the replica follows", || says(&self.servers[1], &["INFO", "replication"], "master_link_status:up"))?;
        let written = |server: &Server| {
            ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "aof_enabled:1"]
                .iter()
                .all(|line| says(server, &["INFO", "persistence"], line))
        };
        until("the servers have written their files", || self.servers.iter().all(written))
    }

    fn name(&self) -> String {
        format!("server {}", self.servers[0].port())
    }
}

/// `appendfsync no` writes to the file before each answer, and leaves the disk to the system. A killed process loses
/// nothing then.
fn durable() -> Builder {
    Server::builder().arg("--appendonly", "yes").arg("--appendfsync", "no").arg("--repl-diskless-sync-delay", "0")
}

pub(super) fn proxy_error(source: io::Error) -> Error {
    Error::NotStarted(format!("the proxy can't listen: {source}"))
}

/// Lets a proxy misbehave.
pub(super) fn strike_proxy(proxy: &Proxy, step: &Step, target: &str, log: &mut FaultLog) {
    let struck = log.began(step.fault, target);
    proxy.set(match step.fault {
        Fault::Delay => Behaviour::Delay(Duration::from_millis(20 + (step.pick % 180) as u64)),
        Fault::Drop => Behaviour::Drop,
        Fault::Halve => Behaviour::Halve,
        Fault::Duplicate => Behaviour::Duplicate,
        _ => Behaviour::Pass,
    });
    thread::sleep(step.lasts);
    proxy.set(Behaviour::Pass);
    if step.fault == Fault::Drop {
        proxy.cut();
    }
    struck.ended();
}

/// The faults that every server can have.
pub(super) fn strike_server(server: &Server, step: &Step, log: &mut FaultLog) -> Result<(), Error> {
    let struck = log.began(step.fault, &format!("server {}", server.port()));
    match step.fault {
        Fault::ClientKill => kill_clients(server)?,
        Fault::ClientPause => {
            server.cli(&["CLIENT", "PAUSE", &step.lasts.as_millis().to_string()])?;
            thread::sleep(step.lasts);
        }
        Fault::ServerPause => {
            server.pause()?;
            thread::sleep(step.lasts);
            server.resume()?;
        }
        _ => {}
    }
    struck.ended();
    Ok(())
}

impl Topology for Single {
    fn urls(&self) -> Vec<String> {
        vec![self.proxy.url()]
    }

    fn watched(&self) -> Vec<(String, SocketAddr)> {
        self.servers.iter().map(|server| (format!("server {}", server.port()), server.address())).collect()
    }

    fn strike(&mut self, step: &Step, log: &mut FaultLog) -> Result<(), Error> {
        match step.fault {
            Fault::Restart => self.restart(step, log),
            Fault::Failover => self.fail_over(log),
            Fault::Wipe => {
                let struck = log.began(step.fault, &self.name());
                self.servers[0].cli(&["FLUSHALL"])?;
                struck.ended_with_losses();
                Ok(())
            }
            Fault::Delay | Fault::Drop | Fault::Halve | Fault::Duplicate => {
                strike_proxy(&self.proxy, step, &self.name(), log);
                Ok(())
            }
            _ => strike_server(&self.servers[0], step, log),
        }
    }

    fn notice(&mut self, _: &mut FaultLog) -> Result<(), Error> {
        Ok(())
    }
}
