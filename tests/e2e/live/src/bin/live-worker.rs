//! A holder in a separate process, to be killed and paused: `live-worker PORT MODE NAME TTL_MS CLAIM_WINDOW_MS`. The
//! mode is `write`, `read`, `several` for `NAME:a` and `NAME:b` at once, `turns` for one short lease after the other, or
//! `inspect` to hold nothing. `sentinel:PORT` is the port of a sentinel that knows the primary as `main`.
//!
//! It prints `held FENCE`, `lost REASON`, and the outcome of an order: `written` or `refused`, `released`. In the mode
//! `turns` it prints `turn FENCE GRANTED_US INSIDE`. Turns end with the standard input, and count the holders on one
//! more server, whose port is the last argument. In the mode `inspect`, each order prints `label LABEL`, which is what the
//! holder calls its lease, `label none`, or `free`. In the mode `permits`, each order is `try LIMIT PER_MS` or `wait LIMIT PER_MS`,
//! and prints `started FENCE`, `busy` or the code of an error. Without `PER_MS`, the semaphore is no rate.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use leasehold::{Error, Lease, LockManager};
use leasehold_live::{SOON, options, write_guarded};
use leasehold_servers::Connection;
use tokio::sync::mpsc;

type Done<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done<()> {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: live-worker PORT MODE NAME TTL_MS CLAIM_WINDOW_MS");
    let port = next()?;
    let (sentinel, port) = port.strip_prefix("sentinel:").map_or((false, &*port), |port| (true, port));
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?));
    let (mode, name) = (next()?, next()?);
    let (ttl, window) = (Duration::from_millis(next()?.parse()?), Duration::from_millis(next()?.parse()?));

    let (builder, url) = (options().claim_window(window), format!("redis://{server}/"));
    let locks = if sentinel { builder.sentinel("main", [url]).await? } else { builder.connect(&url).await? };
    if mode == "turns" {
        let counter = SocketAddr::from((Ipv4Addr::LOCALHOST, next()?.parse()?));
        return take_turns(&locks, &name, ttl, &mut Connection::open(counter, SOON)?).await;
    }
    if mode == "several" {
        let lock = locks.multi([format!("{name}:a"), format!("{name}:b")]).ttl(ttl);
        // On a slow machine, one of two short leases may end before the other begins.
        let both = loop {
            match lock.acquire().await {
                Err(Error::Lost { .. }) => {}
                acquired => break acquired?,
            }
        };
        println!("held both");
        while orders().recv().await.is_some() {}
        both.release().await?;
        return Ok(());
    }
    if mode == "inspect" {
        let mut orders = orders();
        while orders.recv().await.is_some() {
            match locks.inspect(&name).await?.holders.first() {
                Some(holder) => println!("label {}", holder.lease_label.as_deref().unwrap_or("none")),
                None => println!("free"),
            }
        }
        return Ok(());
    }
    if mode == "permits" {
        return take_permits(&locks, &name).await;
    }
    let lock = locks.read_write(name);
    let lock = if mode == "read" { lock.read() } else { lock.write() };
    let lease = lock.label("job 17").ttl(ttl).acquire().await?;
    println!("held {}", lease.fence());

    let mut orders = orders();
    let mut told = false;
    loop {
        tokio::select! {
            biased;
            reason = lease.lost(), if !told => {
                told = true;
                println!("lost {}", reason.code());
            }
            order = orders.recv() => match order {
                Some(order) if order == "release" => break,
                Some(order) => obey(&order, &lease, server)?,
                None => return Ok(()),
            },
        }
    }
    println!("{:?}", lease.release().await?);
    Ok(())
}

/// Prints only the leases that were held to the end of the turn, by the local clock.
async fn take_turns(locks: &LockManager, name: &str, ttl: Duration, counter: &mut Connection) -> Done<()> {
    let mut orders = orders();
    while !matches!(orders.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)) {
        let Ok(lease) = locks.mutex(name).ttl(ttl).acquire().await else { continue };
        let granted = SystemTime::UNIX_EPOCH.elapsed()?;
        let inside = counter.call(&["INCR", "inside"])?;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let held = lease.is_held();
        counter.call(&["DECR", "inside"])?;
        if held {
            println!("turn {} {} {}", lease.fence(), granted.as_micros(), inside.integer().unwrap_or_default());
        }
        let _ = lease.release().await;
    }
    Ok(())
}

async fn take_permits(locks: &LockManager, name: &str) -> Done<()> {
    let mut orders = orders();
    while let Some(order) = orders.recv().await {
        let words: Vec<&str> = order.split(' ').collect();
        let [how, limit, per @ ..] = words.as_slice() else { return Err(format!("what is {order:?}?").into()) };
        let mut semaphore = locks.semaphore(name, limit.parse()?);
        if let [per] = per {
            semaphore = semaphore.per(Duration::from_millis(per.parse()?));
        }
        let tries = *how == "try";
        let taken = if tries { semaphore.try_acquire().await } else { semaphore.acquire().await.map(Some) };
        match taken {
            Ok(Some(lease)) => println!("started {}", lease.fence()),
            Ok(None) => println!("busy"),
            Err(error) => println!("{}", error.code()),
        }
    }
    Ok(())
}

/// Writes with its fence, without checking whether the lease is still valid.
fn obey(order: &str, lease: &Lease, server: SocketAddr) -> Done<()> {
    let Some(["write", key, value]) = order.split(' ').collect::<Vec<_>>().first_chunk().copied() else {
        return Err(format!("what is {order:?}?").into());
    };
    let written = write_guarded(&mut Connection::open(server, SOON)?, key, lease.fence().get(), value)?;
    println!("{}", if written { "written" } else { "refused" });
    Ok(())
}

fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || std::io::stdin().lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    receiver
}
