/// An error message for the person at the terminal.
pub(crate) use leasehold_demo::Error;

pub(crate) type Result<T = ()> = std::result::Result<T, Error>;
