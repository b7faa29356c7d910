//! `leasehold-tcp-connection` with its feature `tls`, as a component. Its exports are those of that crate.

use leasehold_tcp_connection as _;
