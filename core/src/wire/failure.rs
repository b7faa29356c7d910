//! What to do after a failure: send the script's source, retry, or give up.

use alloc::string::String;

use crate::error::{Error, Failure, Votes};
use crate::time::api::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// Retry while there is time.
    Retry(Failure),
    /// A retry would fail in the same way.
    Fatal(Error),
}

/// Error codes of a server that can't run the command now, but may be able to soon.
pub const NOT_READY: [&str; 8] =
    ["TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "NOREPLICAS", "MISCONF"];

/// What an error says if the login or a right is missing. For a command of a script, Redis 7.2 and Valkey 7.2 have other words than the
/// versions before. A client that has not logged in gets `ERR Protocol error: unauthenticated multibulk length` for a command of more
/// than ten words.
pub const NO_RIGHT: [&str; 6] = [
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "can't run this command or subcommand",
    "ACL failure in script",
    "unauthenticated",
];

/// What an error says, wherever its words are, if the name has another kind of lock or other data.
pub const WRONG_TYPE: &str = "WRONGTYPE";

/// What an error of our scripts begins with, if a counter has a fence that none of them can have written.
pub const BAD_FENCE: &str = "BADFENCE";

/// What an error says if a slot began to move while a script ran, which may have done a part of its work.
pub const SLOT_MOVES: &str = "non local key";

/// What an error says if the server accepts no more connections at the moment.
pub const NO_MORE_CLIENTS: &str = "max number of clients";

/// What an error says if the command did not run, because a proxy does not reach the server: twemproxy, predixy (in its spelling), Envoy
/// and Codis.
// twemproxy: `connect` in `nc_server.c`. predixy: `Response.cpp`. Envoy: `NoUpstreamHost`. Codis: `session.go` and `forward.go`.
pub const UNREACHED: [&str; 5] =
    ["Connection refused", "avaliable", "no upstream host", "router is not online", "slot is not ready"];

/// What an error says, as a line, if a proxy has lost its connection to the server, which may have run the command. twemproxy has the
/// system's words, and `unknown` if the server closed the connection. The others are Envoy's, predixy's, Codis's and Camellia's.
// Requests that were sent get these errors, too. twemproxy: `server_close`. Envoy: `UpstreamFailure`. predixy: `ConnectConnection::close`.
// Codis: `loopReader` in `backend.go`. Camellia: `ErrorReply.java`.
pub const BROKE: [&str; 10] = [
    "ERR unknown\n",
    "timed out\n",
    "Connection reset",
    "Broken pipe",
    "Host is down",
    "No route to host",
    "upstream failure",
    "server connection close",
    "backend conn",
    "proxy upstream",
];

/// What an error says if the keys of a command are in different slots. Some proxies have words of their own:
/// `ERR 'EVAL' command keys must in same slot`.
pub const CROSS_SLOT: [&str; 2] = ["CROSSSLOT", "same slot"];

/// If scripts can't read the clock, because they may not run `TIME`: what their error begins with, before the server's refusal of
/// `PEXPIRETIME`, and the problem, before the same. If the refusal is one of [`NO_RIGHT`], it is the problem by itself.
pub const NO_CLOCK: [&str; 2] = [
    "NOCLOCK ",
    "the server refuses TIME in scripts, and they can't run PEXPIRETIME in its place: use Redis 7.0 or Valkey 7.2 or newer, or grant \
     this user +time, or +pexpiretime and +persist: ",
];

/// How the [failure](Failure::Unsupported) begins that a driver gives the engine in place of answers, if the option `cluster_slots` is
/// wrong. The problem follows. The calls end with [`Error::InvalidOption`].
pub const SLOTS_OPTION: &str = "`cluster_slots` ";

impl Failure {
    /// What an error of a proxy says about the command. A driver that brings the scripts' texts itself does this too: npm's does.
    #[cfg(feature = "sources")]
    pub(crate) fn explained(self) -> Self {
        let Self::Refused(text) = self else { return self };
        let line = [&text, "\n"].concat();
        let says = |words: &[&str]| words.iter().any(|words| has(&line, words));
        match text {
            text if says(&BROKE) => Self::Interrupted(text),
            text if says(&UNREACHED) => Self::Unavailable(text),
            text => Self::Refused(text),
        }
    }

    /// Whether the server doesn't have the script. It gets the source.
    pub(crate) fn lacks_script(&self) -> bool {
        matches!(self, Self::Refused(text) if text.starts_with("NOSCRIPT"))
    }
}

impl FailureClass {
    pub(crate) fn of(failure: Failure) -> Self {
        let text = match failure {
            Failure::Refused(text) => without_place(text),
            // A check that was made after connecting has found that the option is wrong.
            #[cfg(feature = "sources")]
            Failure::Unsupported(text) if text.starts_with(SLOTS_OPTION) => {
                let problem = text.get(SLOTS_OPTION.len()..).unwrap_or_default();
                return Self::Fatal(Error::invalid("cluster_slots", problem));
            }
            Failure::Unsupported(text) => return Self::Fatal(Error::Unsupported(text)),
            Failure::Closed(_) => {
                let (waited, votes) = (Duration::ZERO, Votes::default());
                return Self::Fatal(Error::Unreachable { waited, cause: Some(failure), votes });
            }
            Failure::Unavailable(_) | Failure::Interrupted(_) | Failure::TimedOut => return Self::Retry(failure),
        };
        // Redis 6 wraps an error inside a script as "ERR Error running script (...): CODE text".
        match first_code(&text) {
            code if NOT_READY.contains(&code) => Self::Retry(Failure::Unavailable(text)),
            BAD_FENCE => {
                let remedy = ": update this client, or DEL the key if no newer version uses it";
                Self::Fatal(Error::Protocol([&text, remedy].concat()))
            }
            _ if has(&text, WRONG_TYPE) => Self::Fatal(Error::WrongKind(text)),
            _ if NO_RIGHT.iter().any(|words| has(&text, words)) => Self::Fatal(Error::Auth(text)),
            // A driver that brings the scripts' texts itself also explains this error: npm's does.
            #[cfg(feature = "sources")]
            _ if text.starts_with(NO_CLOCK[0]) => {
                let refusal = text.get(NO_CLOCK[0].len()..).unwrap_or_default();
                Self::Fatal(Error::Unsupported([NO_CLOCK[1], refusal].concat()))
            }
            _ if NOT_READY
                .iter()
                .any(|code| has(&text, &[": ", code, " "].concat()) || has(&text, &[": -", code, " "].concat())) =>
            {
                Self::Retry(Failure::Unavailable(text))
            }
            _ if has(&text, SLOT_MOVES) => Self::Retry(Failure::Interrupted(text)),
            _ if has(&text, NO_MORE_CLIENTS) => Self::Retry(Failure::Unavailable(text)),
            #[cfg(feature = "sources")]
            _ => match Failure::Refused(text).explained() {
                Failure::Refused(text) => Self::Fatal(Error::Server(text)),
                failure => Self::Retry(failure),
            },
            #[cfg(not(feature = "sources"))]
            _ => Self::Fatal(Error::Server(text)),
        }
    }
}

impl Error {
    /// Converts a failure while connecting, or while asking a server for its version and role. `waited` is the time
    /// since the attempt began. The rules are those for a lock's own commands. For drivers.
    pub fn of_connecting(failure: Failure, waited: Duration) -> Self {
        match FailureClass::of(failure) {
            FailureClass::Retry(cause) => Self::Unreachable { waited, cause: Some(cause), votes: Votes::default() },
            FailureClass::Fatal(error) => error,
        }
    }
}

/// A command without a usable answer.
#[derive(Clone)]
pub(crate) struct Failed {
    pub(crate) class: FailureClass,
    /// Whether the server may have run it, or may still run it.
    pub(crate) maybe_applied: bool,
}

impl Failed {
    pub(crate) fn by(failure: Failure) -> Self {
        let class = if failure.lacks_script() {
            FailureClass::Fatal(Error::Protocol("NOSCRIPT in answer to EVAL".into()))
        } else {
            FailureClass::of(failure)
        };
        let maybe_applied = matches!(&class, FailureClass::Retry(failure) if failure.maybe_applied());
        Self { class, maybe_applied }
    }

    /// The server ran the command, but the answer is not one of our scripts'.
    pub(crate) fn unreadable(text: String) -> Self {
        Self { class: FailureClass::Fatal(Error::Protocol(text)), maybe_applied: true }
    }
}

/// Whether a refusal says that the keys of a command are in different slots.
pub fn is_cross_slot(text: &str) -> bool {
    let [code, words] = CROSS_SLOT;
    has(text, code) || has(text, words)
}

/// `str::contains` adds two kilobytes of WebAssembly for speed that isn't needed here.
pub(crate) fn has(text: &str, words: &str) -> bool {
    text.as_bytes().windows(words.len()).any(|window| window == words.as_bytes())
}

/// Redis 7 ends an error inside a script with ` script: <digest>, on @user_script:<line>.`, which is of no use in a message.
fn without_place(mut text: String) -> String {
    if let Some(end) = text.as_bytes().windows(9).rposition(|window| window == b" script: ")
        && has(&text, "@user_script")
    {
        text.truncate(end);
    }
    text
}

fn first_code(text: &str) -> &str {
    let mut words = text.split(|c: char| c == '-' || c.is_ascii_whitespace());
    words.find(|word| !word.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn of(text: &str) -> FailureClass {
        FailureClass::of(Failure::Refused(text.into()))
    }

    fn lacks_script(text: &str) -> bool {
        Failure::Refused(text.into()).lacks_script()
    }

    #[test]
    fn where_in_a_script_an_error_arose_is_left_out() {
        let text = "OOM command not allowed when used memory > 'maxmemory'.";
        let told = of(&alloc::format!("{text} script: 36564d1ac37b, on @user_script:69."));
        assert_eq!(told, FailureClass::Fatal(Error::Server(text.into())));
        assert!(
            matches!(of("ERR no such script: a"), FailureClass::Fatal(Error::Server(text)) if text == "ERR no such script: a")
        );
        let acl = "ERR ACL failure in script: User app has no permissions to run the 'time' command";
        let told = of(&alloc::format!("{acl} script: on @user_script:1."));
        assert!(matches!(told, FailureClass::Fatal(Error::Auth(text)) if text == acl));
    }

    #[test]
    fn a_server_that_is_not_ready_is_asked_again() {
        for text in [
            "LOADING Redis is loading",
            "READONLY You can't write",
            "BUSY Redis is busy",
            "TRYAGAIN Multiple keys",
            "NOREPLICAS Not enough good replicas to write.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        ] {
            assert!(matches!(of(text), FailureClass::Retry(Failure::Unavailable(_))), "{text}");
        }
        assert!(matches!(FailureClass::of(Failure::TimedOut), FailureClass::Retry(Failure::TimedOut)));
    }

    #[test]
    fn a_script_that_was_stopped_by_a_moving_slot_may_have_been_applied_and_is_asked_again() {
        for text in [
            "ERR Script attempted to access a non local key in a cluster node script: 36564d1, on @user_script:69.",
            "ERR Error running script (call to f_1): @user_script:69: @user_script: 69: Lua script attempted to access a non \
             local key in a cluster node",
        ] {
            let failed = Failed::by(Failure::Refused(text.into()));
            assert!(matches!(failed.class, FailureClass::Retry(Failure::Interrupted(_))), "{text}");
            assert!(failed.maybe_applied, "{text}");
        }
        let failed = Failed::by(Failure::Refused("TRYAGAIN Multiple keys claim during rehashing of slot".into()));
        assert!(!failed.maybe_applied);
    }

    #[test]
    fn a_server_that_can_not_be_connected_to_now_is_unreachable_and_one_that_refuses_us_is_not() {
        let connecting = |text: &str| Error::of_connecting(Failure::Refused(text.into()), Duration::ZERO);
        for text in ["LOADING Redis is loading", "BUSY Redis is busy", "ERR max number of clients reached"] {
            assert!(connecting(text).is_retryable(), "{text}");
        }
        assert!(matches!(connecting("WRONGPASS invalid username-password pair"), Error::Auth(_)));
        assert!(matches!(connecting("ERR DB index is out of range"), Error::Server(_)));
    }

    #[test]
    fn what_a_proxy_says_while_its_server_is_down_is_waited_for_and_counts_as_run_if_it_may_have_been() {
        for (text, maybe_applied) in [
            ("ERR Connection refused", false),
            ("ERR no server avaliable", false),
            ("ERR no server connection avaliable", false),
            ("no upstream host", false),
            ("ERR router is not online", false),
            ("ERR handle request, slot is not ready, may be offline", false),
            ("ERR max number of clients reached", false),
            ("ERR unknown", true),
            ("ERR Connection timed out", true),
            ("ERR Operation timed out", true),
            ("ERR Connection reset by peer", true),
            ("ERR Broken pipe", true),
            ("ERR Host is down", true),
            ("upstream failure", true),
            ("ERR server connection close", true),
            ("ERR handle response, backend conn reset", true),
            ("ERR handle response, backend conn failure, EOF", true),
            ("ERR proxy upstream connection not available", true),
        ] {
            let failed = Failed::by(Failure::Refused(text.into()));
            let FailureClass::Retry(failure) = failed.class else { panic!("{text}") };
            assert_eq!((failed.maybe_applied, failure.text()), (maybe_applied, text));
        }
        for text in [
            "ERR unknown command 'EVAL'",
            "ERR unknown subcommand",
            "ERR command 'EVAL' not support",
            "ERR timed out of it",
        ] {
            assert!(matches!(of(text), FailureClass::Fatal(Error::Server(_))), "{text}");
        }
    }

    #[test]
    fn an_option_that_a_later_check_refuses_ends_calls_as_it_would_have_ended_connecting() {
        let failure = Failure::Unsupported([SLOTS_OPTION, "is set, but it must not be"].concat());
        let FailureClass::Fatal(error) = FailureClass::of(failure) else { panic!() };
        assert_eq!(error, Error::invalid("cluster_slots", "is set, but it must not be"));
    }

    #[test]
    fn what_a_retry_does_not_mend_ends_with_its_own_code() {
        assert!(matches!(of("NOPERM no rights"), FailureClass::Fatal(Error::Auth(_))));
        assert!(matches!(of("WRONGTYPE Operation against"), FailureClass::Fatal(Error::WrongKind(_))));
        let wrapped = "ERR Error running script (call to f_1): @user_script:1: WRONGTYPE Operation against a key";
        assert!(matches!(of(wrapped), FailureClass::Fatal(Error::WrongKind(_))));
        assert!(matches!(of("OOM command not allowed"), FailureClass::Fatal(Error::Server(_))));
        assert!(lacks_script("NOSCRIPT No matching script."));
        assert!(matches!(of("BADFENCE leasehold:{a}:fence holds"), FailureClass::Fatal(Error::Protocol(_))));
        // Redis 6.2, and 7.0 or newer.
        for refusal in [
            "@user_script: 12: Unknown Redis command called from script",
            "ERR Unknown Redis command called from script",
        ] {
            let FailureClass::Fatal(error @ Error::Unsupported(_)) = of(&["NOCLOCK ", refusal].concat()) else {
                panic!()
            };
            assert!(error.to_string().contains("+pexpiretime") && error.to_string().ends_with(refusal), "{error}");
        }
        for text in [
            "NOCLOCK @user_script: 12: The user executing the script can't run this command or subcommand",
            "NOCLOCK ERR ACL failure in script: User app has no permissions to run the 'pexpiretime' command",
        ] {
            assert!(matches!(of(text), FailureClass::Fatal(Error::Auth(_))), "{text}");
        }
    }

    #[test]
    fn an_error_is_known_by_its_words_wherever_a_server_puts_them() {
        for text in [
            "-LOADING",
            " READONLY x",
            "BUSY\tx",
            "CLUSTERDOWN\n",
            "ERR in a script: TRYAGAIN x",
            "ERR in a script: -READONLY x",
        ] {
            assert!(matches!(of(text), FailureClass::Retry(Failure::Unavailable(_))), "{text:?}");
        }
        for text in [
            "ERR in a script: NOPERM",
            "ERR ACL: can't run this command or subcommand",
            "ERR ACL failure in script: User app has no permissions to run the 'time' command script: on @user_script:1.",
            "ERR Protocol error: unauthenticated multibulk length",
        ] {
            assert!(matches!(of(text), FailureClass::Fatal(Error::Auth(_))), "{text:?}");
        }
        assert!(matches!(of("ERR in a script: -WRONGTYPE"), FailureClass::Fatal(Error::WrongKind(_))));
        assert!(lacks_script("NOSCRIPT\r\n") && !lacks_script("ERR NOSCRIPT"));
        for text in ["", "-", "WRONGTYP", "ERR LOADING"] {
            assert!(matches!(of(text), FailureClass::Fatal(Error::Server(_))), "{text:?}");
        }
    }
}
