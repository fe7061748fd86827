//! The attributes of a table or a family: a small ordered map of bytes.

use bytes::Bytes;

use crate::pb;

/// Attributes in the order in which they were first set. There are rarely more than a dozen, so lookups search them in
/// sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes(Vec<(Bytes, Bytes)>);

impl Attributes {
    /// Returns the value of an attribute; `None` if it is not set.
    pub fn value(&self, key: &[u8]) -> Option<&Bytes> {
        self.0.iter().find(|(k, _)| **k == *key).map(|(_, value)| value)
    }

    /// Returns the value of an attribute as text; `None` if it is not set or is not UTF-8.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value(key.as_bytes()).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Sets an attribute. An existing attribute keeps its position.
    pub fn set(&mut self, key: Bytes, value: Bytes) {
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// Removes an attribute, and returns its value; `None` if it was not set.
    pub fn remove(&mut self, key: &[u8]) -> Option<Bytes> {
        let at = self.0.iter().position(|(k, _)| **k == *key)?;
        Some(self.0.remove(at).1)
    }

    /// Returns all attributes in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(crate) fn to_pairs(&self) -> Vec<pb::BytesBytesPair> {
        self.iter()
            .map(|(first, second)| pb::BytesBytesPair { first: first.clone(), second: second.clone() })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_set_again_keeps_its_place() {
        let mut attributes = Attributes::default();
        for (key, value) in [("a", "1"), ("b", "2"), ("a", "3")] {
            attributes.set(key.into(), value.into());
        }
        let all: Vec<_> = attributes.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(all, [(&b"a"[..], &b"3"[..]), (b"b", b"2")]);
        assert_eq!(attributes.text("b"), Some("2"));
        assert!(attributes.remove(b"b").is_some() && attributes.remove(b"b").is_none());
    }
}
