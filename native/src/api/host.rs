//! The default label: where this process runs.

/// `<host>/<process id>`. Without a host's name, the process id alone.
pub(super) fn default_label() -> String {
    /// A host's name may be longer than a label.
    const MOST: usize = 100;
    let host = host();
    let host: String = host.chars().filter(|letter| letter.is_ascii_graphic()).take(MOST).collect();
    let process = std::process::id();
    if host.is_empty() { process.to_string() } else { format!("{host}/{process}") }
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}
