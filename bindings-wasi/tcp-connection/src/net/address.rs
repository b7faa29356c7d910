//! The address of a server, with credentials: `redis://user:password@host:port/database`.

use std::cell::Cell;

const DEFAULT_PORT: u16 = 6379;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) database: u32,
    pub(super) credentials: Option<Credentials>,
    /// What the server there has refused by closing the connection.
    pub(crate) closes: Closes,
}

/// A proxy may close the connection at a command that it doesn't know. Then it isn't asked again and again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Closes {
    pub(super) at_info: Cell<bool>,
    /// How often in a row.
    pub(crate) at_subscribe: Cell<u32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    /// None for the server's default user.
    pub(super) user: Option<String>,
    pub(super) password: String,
}

/// Why an address can't be used. Never contains the password.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AddressError {
    /// The address asks for TLS, with this scheme.
    Tls(&'static str),
    /// This provider lacks something that the address asks for.
    Unsupported(&'static str),
    /// It can't be parsed.
    Malformed(&'static str),
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or(AddressError::Malformed("write it as redis://user:password@host:port/database"))?;
        match scheme {
            "redis" | "valkey" => {}
            "rediss" => return Err(AddressError::Tls("rediss")),
            "valkeys" => return Err(AddressError::Tls("valkeys")),
            _ => return Err(AddressError::Malformed("it must begin with redis:// or valkey://")),
        }
        if rest.contains(['?', '#']) {
            return Err(AddressError::Unsupported("this connection provider takes no parameters in an address"));
        }
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        // A password may contain an `@` that is not encoded. A host can't.
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, rest)) => (Credentials::parse(credentials)?, rest),
            None => (None, authority),
        };
        let (host, port) = parse_host(host)?;
        let database = match database {
            "" => 0,
            number => number.parse().map_err(|_| AddressError::Malformed("the database is not a number"))?,
        };
        Ok(Self { host: host.to_owned(), port, database, credentials, closes: Closes::default() })
    }
}

impl Credentials {
    fn parse(text: &str) -> Result<Option<Self>, AddressError> {
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (percent_decoded(user)?, percent_decoded(password)?),
            None if text.is_empty() => return Ok(None),
            None => return Err(AddressError::Malformed("the user has no password: write user:password@host")),
        };
        match (user.is_empty(), password.is_empty()) {
            (true, true) => Ok(None),
            (true, false) => Ok(Some(Self { user: None, password })),
            (false, _) => Ok(Some(Self { user: Some(user), password })),
        }
    }
}

/// The host and the port of `host`, `host:port`, `[::1]` or `[::1]:port`.
fn parse_host(text: &str) -> Result<(&str, u16), AddressError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(AddressError::Malformed("a `]` is missing after the host"))?,
        None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    if host.is_empty() {
        return Err(AddressError::Malformed("the host is missing"));
    }
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0),
        None => port.is_empty().then_some(DEFAULT_PORT),
    };
    Ok((host, port.ok_or(AddressError::Malformed("the port is not a number from 1 to 65535"))?))
}

fn percent_decoded(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()).zip(hex(rest.next())).map(|(high, low)| high << 4 | low).ok_or(BAD_PERCENT)?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| BAD_PERCENT)
}

const BAD_PERCENT: AddressError =
    AddressError::Malformed("a percent sign in the user or the password is not followed by UTF-8");

fn hex(digit: Option<u8>) -> Option<u8> {
    let digit = char::from(digit?).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16, database: u32, credentials: Option<(Option<&str>, &str)>) -> Address {
        let credentials = credentials
            .map(|(user, password)| Credentials { user: user.map(str::to_owned), password: password.to_owned() });
        Address { host: host.to_owned(), port, database, credentials, closes: Closes::default() }
    }

    #[test]
    fn omitted_parts_have_defaults() {
        assert_eq!(Address::parse("redis://cache"), Ok(address("cache", 6379, 0, None)));
        assert_eq!(Address::parse("redis://cache/"), Ok(address("cache", 6379, 0, None)));
        assert_eq!(Address::parse("valkey://127.0.0.1:7000/3"), Ok(address("127.0.0.1", 7000, 3, None)));
        assert_eq!(Address::parse("redis://[::1]:7000"), Ok(address("::1", 7000, 0, None)));
        assert_eq!(Address::parse("redis://[::1]"), Ok(address("::1", 6379, 0, None)));
    }

    #[test]
    fn credentials_may_have_any_character() {
        let named = address("h", 6379, 0, Some((Some("app"), "s3:cr/t@ü")));
        assert_eq!(Address::parse("redis://app:s3:cr%2Ft@%C3%BC@h"), Ok(named));
        assert_eq!(Address::parse("redis://:secret@h"), Ok(address("h", 6379, 0, Some((None, "secret")))));
        assert_eq!(Address::parse("redis://@h"), Ok(address("h", 6379, 0, None)));
    }

    #[test]
    fn a_scheme_that_asks_for_tls_is_refused_whatever_follows_it() {
        for scheme in ["rediss", "valkeys"] {
            for rest in ["h", ":secret@h", "h/0#insecure", "h?protocol=resp3", "", ":0"] {
                assert_eq!(Address::parse(&format!("{scheme}://{rest}")), Err(AddressError::Tls(scheme)), "{rest}");
            }
        }
    }

    #[test]
    fn parameters_are_unsupported() {
        for text in ["redis://h?protocol=resp3", "redis://h/0#insecure", "redis://h/?#insecure", "valkey://h/#x"] {
            assert!(matches!(Address::parse(text), Err(AddressError::Unsupported(_))), "{text}");
        }
    }

    #[test]
    fn malformed_addresses_are_refused() {
        let texts = [
            "",
            "h",
            "http://h",
            "redis://",
            "redis://:0",
            "redis://h:",
            "redis://h:0",
            "redis://h:65536",
            "redis://h:x",
            "redis://h/x",
            "redis://h/-1",
            "redis://[::1",
            "redis://[::1]7000",
            "redis://[]",
            "redis://user@h",
            "redis://:%@h",
            "redis://:%4@h",
            "redis://:%zz@h",
            "redis://:%ff@h",
        ];
        for text in texts {
            assert!(matches!(Address::parse(text), Err(AddressError::Malformed(_))), "{text}");
        }
    }
}
