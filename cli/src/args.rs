//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use leasehold::Wait;

use crate::report::exit;
use crate::times::{FOREVER, default_of, duration, in_bounds, wait};

const EXIT_CODES: &str = "\
Exit codes:
  0    done; `exec`, `lead`: the command's own status
  1    `doctor` found a problem
  64   the command line: an unknown option, a bad name or value
  65   the key holds another kind of lock, or other data
  69   no server answered
  70   the server answered with an error
  71   the operating system refused a process or a signal
  74   the output can't be written, for example because the reader of the pipe has ended
  75   the lock is busy (--busy-exit-code changes it)
  76   the lease was lost (`exec`: --lost-exit-code changes it)
  77   the server refused the login or a command
  78   this server or topology can't do it
  79   `force-release` was not confirmed
  80   the lease of this token is not held any more (`release`, `--adopt`)
  126  the command can't be executed
  127  the command was not found
  128+n  signal n ended the command, or interrupted this program (1: the terminal is gone)";

const EXAMPLES: &str = "\
Examples:
  leasehold exec report -- ./report.sh                   one run at a time, on all machines
  leasehold exec --wait 0 cache -- ./refresh.sh          skip the run if it is busy (exit code 75)
  leasehold exec --permits 1 --of 5 reports -- ./one     at most five at a time
  leasehold exec --permits 1 --of 9 --per 1m api -- ./one   at most nine starts in a minute
  leasehold lead scheduler -- ./scheduler                one process leads, another one follows it
  TOKEN=$(leasehold acquire --ttl 30m deploy)            take a lock in one step of a pipeline,
  leasehold release --token \"$TOKEN\" deploy              and give it back in another one
  leasehold ls 'invoice:*'                               the locks that are held or waited for
  leasehold inspect invoice:42                           who holds it, who waits
  leasehold doctor                                       is this server fit for locks?";

/// Distributed locks over Redis and Valkey
///
/// Runs a command under a lock or while it leads, shows locks, takes them away in an incident, and checks the server.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print JSON: one value, or one line for each event
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which servers hold the locks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Servers")]
pub(crate) struct Servers {
    /// A server, such as redis://user:password@host:6379/0 or rediss://host for TLS. Separate several with
    /// commas [default: redis://127.0.0.1:6379]
    #[arg(
        long,
        global = true,
        env = "REDIS_URL",
        hide_env_values = true,
        value_name = "URL",
        value_delimiter = ',',
        default_value = "redis://127.0.0.1:6379",
        hide_default_value = true
    )]
    pub(crate) url: Vec<String>,
    /// The servers are a cluster. One URL is enough to find the others
    #[arg(long, global = true, conflicts_with_all = ["sentinel", "quorum"])]
    pub(crate) cluster: bool,
    /// The URL is one address that enforces the slots of a cluster and refuses CLUSTER. The program finds that out by itself.
    /// With this option, it fails if the server doesn't enforce slots
    #[arg(long, global = true, conflicts_with_all = ["cluster", "sentinel", "quorum"])]
    pub(crate) cluster_slots: bool,
    /// The URLs are sentinels. They monitor the primary as SERVICE
    #[arg(long, global = true, value_name = "SERVICE", conflicts_with = "quorum")]
    pub(crate) sentinel: Option<String>,
    /// The URLs are independent servers, and a lock needs the majority of them (Redlock)
    #[arg(long, global = true)]
    pub(crate) quorum: bool,
    /// The ACL user; replaces the URL's
    #[arg(long, global = true, env = "REDIS_USERNAME", value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The database; replaces the URL's. The password is read from REDIS_PASSWORD, or from the URL
    #[arg(long, global = true, value_name = "NUMBER")]
    pub(crate) db: Option<u32>,
    /// A file with the certificates (PEM) to trust, instead of the system's
    #[arg(long, global = true, env = "LEASEHOLD_TLS_CA", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// A file with the client's certificate (PEM)
    #[arg(long, global = true, env = "LEASEHOLD_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// A file with the client's key (PEM)
    #[arg(long, global = true, env = "LEASEHOLD_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The prefix of every name: the same as in your services
    #[arg(
        long,
        global = true,
        env = "LEASEHOLD_PREFIX",
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) prefix: String,
    /// How long one answer of a server may take: 10 ms to 60 s
    #[arg(long, global = true, value_name = "TIME", allow_hyphen_values = true)]
    #[arg(default_value = default_of("response_timeout"), value_parser = in_bounds("response_timeout"))]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // Its help is that of its type, which is longer.
    Exec(Box<Exec>),
    Lead(Box<Lead>),
    Acquire(Box<Acquire>),
    Release(Release),
    /// Delete the success of `leasehold exec --once`, or the result of a once, so that the next caller runs it again
    Forget(Name),
    /// List the locks that are held or waited for
    Ls(Ls),
    /// Show who holds a lock and who waits for it
    Inspect(Name),
    /// Show a lock live: a line for each change, until you interrupt it
    Watch(Watch),
    /// Take a lock from its holders and grant the next waiter. Asks first
    ForceRelease(ForceRelease),
    /// Check whether the servers are fit for locks
    Doctor(Doctor),
    /// Print a shell's completions
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page (roff)
    Man,
}

/// Run a command under a lock
///
/// Waits for the lock, runs the command, and releases the lock when the command ends. The lock is renewed
/// meanwhile. The command finds the fencing token in LEASEHOLD_FENCE and the lock's name in LEASEHOLD_NAME. Let
/// the resource that it writes to refuse a fence that is smaller than the greatest it has seen.
///
/// If the lease is lost, the command and the processes that it started get SIGTERM, and after --grace SIGKILL. If the
/// lease can't be renewed, they get both before it ends, so that they don't overlap with the next holder. A second process
/// does the same if `leasehold exec` itself is killed, or paused for too long.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) take: Take,
    /// How long the server keeps the lock after a crash of this machine: 10 ms to 30 days
    #[arg(long, env = "LEASEHOLD_TTL", value_name = "TIME", allow_hyphen_values = true)]
    #[arg(default_value = default_of("ttl"), value_parser = in_bounds("ttl"))]
    pub(crate) ttl: Duration,
    /// How long the command may hold the lock: 10 ms to 30 days. Before that it gets SIGTERM, and SIGKILL after --grace
    /// [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = in_bounds("max_hold"), allow_hyphen_values = true)]
    pub(crate) max_hold: Option<Duration>,
    /// Share the lock with other readers, as `flock --shared`
    #[arg(long, short = 's', conflicts_with_all = ["permits", "adopt"])]
    pub(crate) read: bool,
    /// Take this many permits of a semaphore
    #[arg(long, value_name = "N", requires = "of", conflicts_with = "adopt")]
    pub(crate) permits: Option<u32>,
    /// How many permits the semaphore has. All callers must give the same number
    #[arg(long, value_name = "M", requires = "permits")]
    pub(crate) of: Option<u32>,
    /// At most --of permits in each window of this length: 10 ms to 30 days. The command may run longer. Nothing is held while it
    /// runs, and no permit comes back when it ends
    #[arg(long, value_name = "TIME", value_parser = in_bounds("per"), requires = "of", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["max_hold", "at_least"])]
    pub(crate) per: Option<Duration>,
    /// Keep the lock for this time from its grant on, even if the command ends earlier or fails: 10 ms to 30 days, and
    /// not longer than --max-hold. Not with --quorum
    #[arg(long, value_name = "TIME", value_parser = in_bounds("at_least"), allow_hyphen_values = true)]
    pub(crate) at_least: Option<Duration>,
    /// Fail at once if the lock is not free and this many others wait for it already: 0 to 1,000,000. Not with --quorum
    #[arg(long, value_name = "N")]
    pub(crate) max_waiters: Option<u32>,
    /// Run the command only if no other run of this name has succeeded within --keep: its success is stored in the same step that
    /// releases the lock. A caller that finds it ends with 0 at once; one that waits meanwhile, too. Not with --quorum
    #[arg(long, conflicts_with_all = ["permits", "read", "at_least", "adopt"])]
    pub(crate) once: bool,
    /// How long the success of --once counts: 1 s to 366 days [default: 24 hours]
    #[arg(long, value_name = "TIME", value_parser = in_bounds("keep"), requires = "once", allow_hyphen_values = true)]
    pub(crate) keep: Option<Duration>,
    #[command(flatten)]
    pub(crate) program: Program,
    /// The exit code if the lease is lost
    #[arg(long, value_name = "CODE", default_value_t = exit::LOST)]
    pub(crate) lost_exit_code: u8,
}

/// What `exec` and `lead` have in common: the command that they run.
#[derive(Args, Debug)]
pub(crate) struct Program {
    /// How long the command may go on after SIGTERM when the lease, or the term, is lost
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) grace: Duration,
    /// Hold the lock, or lead, until all processes that the command started have ended, as `flock` does. Those that left its process
    /// group don't count
    #[arg(long, short = 'g')]
    pub(crate) group: bool,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl Program {
    /// The parser sees to it that there is one.
    pub(crate) fn name(&self) -> &OsStr {
        self.command.first().map_or(OsStr::new(""), OsString::as_os_str)
    }

    pub(crate) fn arguments(&self) -> &[OsString] {
        self.command.get(1..).unwrap_or_default()
    }
}

/// Run a program while this process leads
///
/// Campaigns in an election, and starts the program when this process leads. If the term is lost, the program and the processes
/// that it started get SIGTERM, and after --grace SIGKILL. Then this process campaigns again, also through outages of the
/// server, and starts the program again when it leads again. If the term can't be renewed, the program has ended before
/// another process can lead.
///
/// SIGTERM and SIGINT are passed on to the program. When it has ended, this process resigns, so that the next one leads at once,
/// and ends with the program's status. It does the same if the program ends by itself.
///
/// The program finds the number of its term, which is a fencing token, in LEASEHOLD_FENCE, and the election's name in
/// LEASEHOLD_NAME. Let the resource that it writes to refuse a fence that is smaller than the greatest it has seen.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Lead {
    /// The election's name
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) name: String,
    /// What others learn about this process while it leads, such as its address: at most 1,024 bytes
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub(crate) value: String,
    /// How long a leader that has died keeps the others waiting: 10 ms to 30 days
    #[arg(long, env = "LEASEHOLD_TTL", value_name = "TIME", allow_hyphen_values = true)]
    #[arg(default_value = default_of("ttl"), value_parser = in_bounds("ttl"))]
    pub(crate) ttl: Duration,
    /// The name under which `inspect` shows this process: at most 128 bytes [default: `host/process id`]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) program: Program,
    /// Say who leads while waiting, when a term begins, and when this process has resigned. Losses are always said
    #[arg(long, short = 'v')]
    pub(crate) verbose: bool,
}

/// What `exec` and `acquire` have in common: how they take the lock.
#[derive(Args, Debug)]
pub(crate) struct Take {
    /// The lock's name
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) name: String,
    /// How long to wait for the lock: 1 ms to 30 days, 0 for one try, or `forever`
    #[arg(long, short = 'w', env = "LEASEHOLD_WAIT", value_name = "TIME", allow_hyphen_values = true)]
    #[arg(default_value = FOREVER, value_parser = wait)]
    pub(crate) wait: Wait,
    /// Take over a lease with the token that `leasehold acquire` printed; `-` reads it from LEASEHOLD_TOKEN. Doesn't wait
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub(crate) adopt: Option<String>,
    /// The name under which others see this holder: at most 128 bytes [default: `host/process id`; with `acquire`,
    /// `host, leasehold acquire`]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// The exit code if the lock is busy
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = exit::BUSY)]
    pub(crate) busy_exit_code: u8,
    /// Print nothing if another client holds the lock: only the exit code tells. Errors are still reported
    #[arg(long, short = 'q', conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say who holds the lock while waiting, and when it is acquired and released
    #[arg(long, short = 'v')]
    pub(crate) verbose: bool,
}

/// Take a lock, print its token and end
///
/// For steps that are separate commands, such as those of a pipeline. Another step gives the lock back with
/// `leasehold release --token`, or runs its last command with `leasehold exec --adopt`, which renews the lease meanwhile.
///
/// No process renews the lease between the steps: when --ttl is over, the lock is free, even if a step still runs. `leasehold
/// acquire --adopt` sets a new --ttl and prints a new token. The old token then no longer works.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Acquire {
    #[command(flatten)]
    pub(crate) take: Take,
    /// After this time the lock is free, unless a step renews it: 10 ms to 30 days
    #[arg(long, env = "LEASEHOLD_TTL", value_name = "TIME", allow_hyphen_values = true)]
    #[arg(default_value = default_of("ttl"), value_parser = in_bounds("ttl"))]
    pub(crate) ttl: Duration,
    /// Print LEASEHOLD_TOKEN=... and LEASEHOLD_FENCE=..., a line each, for `eval` or a file of variables
    #[arg(long)]
    pub(crate) env: bool,
}

/// Give back a lock that `leasehold acquire` has taken
///
/// The exit code is 80 if the lease has already ended: its --ttl was over, or it was released, adopted or taken by force. If
/// another client holds the lock now, it keeps it.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Release {
    /// The lock's name
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) name: String,
    /// The token that `leasehold acquire` printed. Other users of the machine can read command lines, but not this variable
    #[arg(long, env = "LEASEHOLD_TOKEN", hide_env_values = true, value_name = "TOKEN", allow_hyphen_values = true)]
    pub(crate) token: String,
}

/// A lock's name.
#[derive(Args, Debug)]
pub(crate) struct Name {
    /// The lock's name
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) name: String,
}

#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Which names: `*`, `?`, `[a-z]` and `\` as in Redis
    #[arg(default_value = "*", hide_default_value = true, value_hint = ValueHint::Other)]
    pub(crate) pattern: String,
    /// How much of the servers' time the search may take, in percent: 1 to 100
    #[arg(long, value_name = "PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) pace: u32,
}

#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// The lock's name
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) name: String,
    /// How often to ask the server
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) interval: Duration,
}

#[derive(Args, Debug)]
pub(crate) struct ForceRelease {
    /// The lock's name
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) name: String,
    /// Don't ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Delete the key even if it has no TTL: another library's key, or somebody's data
    #[arg(long)]
    pub(crate) foreign: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// The names that this user may lock: their beginning, or a pattern such as `invoice:*`. The doctor takes locks on
    /// random names of this form, after the prefix, each for at most a minute [default: any name]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) name: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
