//! The address of a server, with credentials: `redis://user:password@host:port/database`.

const PORT: u16 = 6379;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) database: u32,
    pub(crate) credentials: Option<Credentials>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// None for the server's default user.
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

/// Why an address can't be used. Never contains the password.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It asks for something that this provider doesn't have.
    Unsupported(&'static str),
    /// It can't be parsed.
    Malformed(&'static str),
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, Unusable> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or(Unusable::Malformed("write it as redis://user:password@host:port/database"))?;
        match scheme {
            "redis" | "valkey" => {}
            "rediss" | "valkeys" => return Err(Unusable::Unsupported("this connection provider has no TLS")),
            _ => return Err(Unusable::Malformed("it must begin with redis://")),
        }
        if rest.contains(['?', '#']) {
            return Err(Unusable::Unsupported("this connection provider takes no parameters in an address"));
        }
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        // A password may contain an `@` that somebody forgot to encode. A host can't.
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((credentials, place)) => (Credentials::parse(credentials)?, place),
            None => (None, authority),
        };
        let (host, port) = place_of(place)?;
        let database = match database {
            "" => 0,
            number => number.parse().map_err(|_| Unusable::Malformed("the database is not a number"))?,
        };
        Ok(Self { host: host.to_owned(), port, database, credentials })
    }
}

impl Credentials {
    fn parse(text: &str) -> Result<Option<Self>, Unusable> {
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (decoded(user)?, decoded(password)?),
            None if text.is_empty() => return Ok(None),
            None => return Err(Unusable::Malformed("the user has no password: write user:password@host")),
        };
        match (user.is_empty(), password.is_empty()) {
            (true, true) => Ok(None),
            (true, false) => Ok(Some(Self { user: None, password })),
            (false, _) => Ok(Some(Self { user: Some(user), password })),
        }
    }
}

/// The host and the port of `host`, `host:port`, `[::1]` or `[::1]:port`.
fn place_of(place: &str) -> Result<(&str, u16), Unusable> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(Unusable::Malformed("a `]` is missing after the host"))?,
        None => place.find(':').map_or((place, ""), |colon| place.split_at(colon)),
    };
    if host.is_empty() {
        return Err(Unusable::Malformed("the host is missing"));
    }
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0),
        None => port.is_empty().then_some(PORT),
    };
    Ok((host, port.ok_or(Unusable::Malformed("the port is not a number from 1 to 65535"))?))
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> Result<String, Unusable> {
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

const BAD_PERCENT: Unusable =
    Unusable::Malformed("a percent sign in the user or the password is not followed by UTF-8");

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
        Address { host: host.to_owned(), port, database, credentials }
    }

    #[test]
    fn what_is_left_out_has_its_default() {
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
    fn tls_and_parameters_are_told_as_unsupported() {
        for text in ["rediss://h", "valkeys://h", "redis://h?protocol=resp3", "redis://h/0#insecure"] {
            assert!(matches!(Address::parse(text), Err(Unusable::Unsupported(_))), "{text}");
        }
    }

    #[test]
    fn what_can_not_be_read_is_refused() {
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
            assert!(matches!(Address::parse(text), Err(Unusable::Malformed(_))), "{text}");
        }
    }
}
