//! Parses query strings of addresses and forms.

use std::fmt::Write;

/// The names and values of a query string, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `name=value&…`, the format of addresses and forms.
    pub(crate) fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name, true), decode(value, true))
        });
        Query(pairs.collect())
    }

    /// Returns the value with this name; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// Returns the number with this name, or `default` if there is none; the result is limited to 1 to `max`.
    pub(crate) fn number(&self, name: &str, default: usize, max: usize) -> usize {
        self.get(name).parse().unwrap_or(default).clamp(1, max)
    }

    /// Returns the same query with another value for `name`; without `name` if the value is empty.
    pub(crate) fn with(&self, name: &str, value: &str) -> Query {
        let mut pairs: Vec<_> = self.0.iter().filter(|(own, _)| own != name).cloned().collect();
        if !value.is_empty() {
            pairs.push((name.to_owned(), value.to_owned()));
        }
        Query(pairs)
    }

    /// Returns the address of `path` with this query.
    pub(crate) fn address(&self, path: &str) -> String {
        let mut out = path.to_owned();
        for (at, (name, value)) in self.0.iter().enumerate() {
            out.push(if at == 0 { '?' } else { '&' });
            // Writing to a String cannot fail.
            let _infallible = write!(out, "{}={}", encode(name.as_bytes()), encode(value.as_bytes()));
        }
        out
    }
}

/// Encodes bytes for a part of an address.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                out.push(*byte as char)
            }
            byte => {
                let _infallible = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Decodes the result of [`encode`], as text.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) if plus_is_space => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_changed_and_written() {
        let query = Query::parse("q=a+b%2Fc&range=6h&x&bad=%zz%4");
        assert_eq!((query.get("q"), query.get("x"), query.get("none")), ("a b/c", "", ""));
        assert_eq!(query.get("bad"), "%zz%4");
        let changed = query.with("range", "7d").with("x", "").with("bad", "");
        assert_eq!(changed.address("/keys"), "/keys?q=a%20b%2Fc&range=7d");
        assert_eq!(Query::parse("n=9999").number("n", 50, 1_000), 1_000);
        assert_eq!(Query::parse("n=x").number("n", 50, 1_000), 50);
    }

    #[test]
    fn bytes_of_any_kind_become_part_of_an_address_and_back() {
        let text = "<script>&\"'/ü%";
        assert_eq!(decode(&encode(text.as_bytes()), false), text);
        assert!(!encode(text.as_bytes()).contains(['<', '>', '"', '\'', '&', '/']));
        assert_eq!(decode("a+b", false), "a+b");
    }
}
