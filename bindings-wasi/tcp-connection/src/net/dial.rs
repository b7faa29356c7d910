//! From a host's name to a TCP socket.

use std::net::IpAddr;

use crate::bindings::wasi::sockets::ip_name_lookup::{self, resolve_addresses};
use crate::bindings::wasi::sockets::types::{
    ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress, TcpSocket,
};

/// Tries a host's addresses in turn, and connects to the first that answers.
pub(super) async fn dial(host: &str, port: u16) -> Result<TcpSocket, String> {
    let mut problem = "it has no address".to_owned();
    for address in addresses(host).await? {
        match connect(socket_address(address, port)).await {
            Ok(socket) => return Ok(socket),
            Err(error) => problem = describe(&error),
        }
    }
    Err(format!("can't connect to {host}, port {port}: {problem}"))
}

/// A host that is an IP address needs no lookup, so the component needs no permission for lookups.
async fn addresses(host: &str) -> Result<Vec<IpAddress>, String> {
    if let Ok(address) = host.parse() {
        return Ok(vec![ip_address(address)]);
    }
    resolve_addresses(host.to_owned()).await.map_err(|error| {
        let problem = match error {
            ip_name_lookup::ErrorCode::AccessDenied => "this host does not let the component look up names".to_owned(),
            ip_name_lookup::ErrorCode::Other(Some(text)) => text,
            error => format!("{error:?}"),
        };
        format!("can't look up {host}: {problem}")
    })
}

async fn connect(address: IpSocketAddress) -> Result<TcpSocket, ErrorCode> {
    let family = match address {
        IpSocketAddress::Ipv4(_) => IpAddressFamily::Ipv4,
        IpSocketAddress::Ipv6(_) => IpAddressFamily::Ipv6,
    };
    let socket = TcpSocket::create(family)?;
    socket.connect(address).await?;
    Ok(socket)
}

fn ip_address(address: IpAddr) -> IpAddress {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            IpAddress::Ipv4((a, b, c, d))
        }
        IpAddr::V6(address) => {
            let [a, b, c, d, e, f, g, h] = address.segments();
            IpAddress::Ipv6((a, b, c, d, e, f, g, h))
        }
    }
}

fn socket_address(address: IpAddress, port: u16) -> IpSocketAddress {
    match address {
        IpAddress::Ipv4(address) => IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address }),
        IpAddress::Ipv6(address) => {
            IpSocketAddress::Ipv6(Ipv6SocketAddress { port, flow_info: 0, address, scope_id: 0 })
        }
    }
}

/// A socket's error as a text for logs.
pub(super) fn describe(error: &ErrorCode) -> String {
    match error {
        ErrorCode::AccessDenied => "this host does not let the component connect there".to_owned(),
        ErrorCode::Other(Some(text)) => text.clone(),
        error => format!("{error:?}"),
    }
}
