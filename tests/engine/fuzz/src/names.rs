/// The names that users lock.
pub const NAMES: [&str; 8] = ["a", "b", "c", "{t}1", "{t}2", "r", "s", ADOPTED];

/// The name whose leases come from tokens.
pub(crate) const ADOPTED: &str = "adopted";

/// The known name that a key is.
pub(crate) fn known(key: &str) -> Option<&'static str> {
    NAMES.into_iter().find(|name| *name == key)
}
