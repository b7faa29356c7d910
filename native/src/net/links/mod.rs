//! How commands travel to the servers and their replies come back.

pub(crate) mod cluster_link;
pub(crate) mod link;
pub(crate) mod quorum;
pub(crate) mod server_link;
