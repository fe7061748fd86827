//! Table names: a namespace and a qualifier, formatted as `namespace:qualifier`, or as the qualifier alone for the
//! namespace `default`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use cell::string_binary;

use crate::{Error, pb};

/// The namespace of tables without an explicit one.
pub const DEFAULT_NAMESPACE: &str = "default";
/// The namespace of HBase's system tables.
pub const SYSTEM_NAMESPACE: &str = "hbase";

/// A table name that follows HBase's rules. Cloning is cheap; names are ordered by their formatted bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    printed: Arc<str>,
    /// The position of the colon in the name; `None` for the default namespace.
    colon: Option<usize>,
}

impl TableName {
    /// Returns `hbase:meta`.
    pub fn meta() -> Self {
        Self { printed: "hbase:meta".into(), colon: Some(5) }
    }

    /// Returns `hbase:namespace`.
    pub fn namespaces() -> Self {
        Self { printed: "hbase:namespace".into(), colon: Some(5) }
    }

    /// Creates the name of `qualifier` in `namespace`. Fails with HBase's message if HBase does not allow the name.
    pub fn new(namespace: &str, qualifier: &str) -> Result<Self, Error> {
        check_namespace(namespace)?;
        check_qualifier(qualifier)?;
        if namespace == DEFAULT_NAMESPACE {
            return match qualifier {
                "-ROOT-" => illegal("-ROOT- has been deprecated."),
                ".META." => illegal(".META. no longer exists. The table has been renamed to hbase:meta"),
                _ => Ok(Self { printed: qualifier.into(), colon: None }),
            };
        }
        Ok(Self { printed: format!("{namespace}:{qualifier}").into(), colon: Some(namespace.len()) })
    }

    /// Parses a name in its formatted form.
    pub fn from_bytes(printed: &[u8]) -> Result<Self, Error> {
        match std::str::from_utf8(printed) {
            Ok(text) => text.parse(),
            Err(_) => illegal(format!("Table name is not UTF-8: {}", string_binary(printed))),
        }
    }

    /// Returns the namespace, `default` included.
    pub fn namespace(&self) -> &str {
        self.colon.map_or(DEFAULT_NAMESPACE, |colon| &self.printed[..colon])
    }

    /// Returns the name within the namespace.
    pub fn qualifier(&self) -> &str {
        self.colon.map_or(&self.printed, |colon| &self.printed[colon + 1..])
    }

    /// Returns the formatted name.
    pub fn as_str(&self) -> &str {
        &self.printed
    }

    /// Returns the bytes of the formatted name. Region names begin with these bytes, and they are the row key of the
    /// table's state in hbase:meta.
    pub fn as_bytes(&self) -> &[u8] {
        self.printed.as_bytes()
    }

    /// Whether this is `hbase:meta`.
    pub fn is_meta(&self) -> bool {
        &*self.printed == "hbase:meta"
    }

    /// Whether this is a system table, in the namespace `hbase`.
    pub fn is_system(&self) -> bool {
        self.namespace() == SYSTEM_NAMESPACE
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.printed)
    }
}

impl fmt::Debug for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.printed)
    }
}

impl FromStr for TableName {
    type Err = Error;

    /// Parses a name as HBase does: the *last* colon separates the parts.
    fn from_str(printed: &str) -> Result<Self, Error> {
        if printed.is_empty() {
            return illegal("Name is null or empty");
        }
        match printed.rsplit_once(':') {
            Some((namespace, qualifier)) => Self::new(namespace, qualifier),
            None => Self::new(DEFAULT_NAMESPACE, printed),
        }
    }
}

impl TryFrom<&pb::TableName> for TableName {
    type Error = Error;

    fn try_from(name: &pb::TableName) -> Result<Self, Error> {
        let text = |part: &Bytes| match std::str::from_utf8(part) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => illegal(format!("Table name is not UTF-8: {}", string_binary(part))),
        };
        Self::new(&text(&name.namespace)?, &text(&name.qualifier)?)
    }
}

impl From<&TableName> for pb::TableName {
    fn from(name: &TableName) -> Self {
        Self {
            namespace: Bytes::copy_from_slice(name.namespace().as_bytes()),
            qualifier: Bytes::copy_from_slice(name.qualifier().as_bytes()),
        }
    }
}

/// Validates a namespace's name, with HBase's messages.
pub fn check_namespace(namespace: &str) -> Result<(), Error> {
    if namespace.is_empty() {
        return illegal("Namespace name must not be empty");
    }
    if namespace == "zookeeper" {
        return illegal("Tables may not be named 'zookeeper'");
    }
    match namespace.chars().enumerate().find(|(_, c)| !(c.is_alphanumeric() || *c == '_')) {
        Some((at, c)) => illegal(format!(
            "Illegal character <{c}> at {at}. Namespaces may only contain 'alphanumeric characters' from any language \
             and digits: {namespace}"
        )),
        None => Ok(()),
    }
}

fn check_qualifier(qualifier: &str) -> Result<(), Error> {
    let Some(first) = qualifier.bytes().next() else {
        return illegal("Table qualifier must not be empty");
    };
    if first == b'.' && qualifier != ".META." || first == b'-' && qualifier != "-ROOT-" {
        return illegal(format!(
            "Illegal first character <{first}> at 0. User-space table qualifiers can only start with 'alphanumeric \
             characters' from any language: {qualifier}"
        ));
    }
    if qualifier == "zookeeper" {
        return illegal("Tables may not be named 'zookeeper'");
    }
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    match qualifier.chars().enumerate().find(|(_, c)| !allowed(*c)) {
        Some((at, c)) => illegal(format!(
            "Illegal character code:{}, <{c}> at {at}. User-space table qualifiers may only contain 'alphanumeric \
             characters' and digits: {qualifier}",
            u32::from(c)
        )),
        None => Ok(()),
    }
}

fn illegal<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::IllegalArgument(message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_namespace_is_not_printed() {
        let name: TableName = "default:users".parse().unwrap();
        assert_eq!((name.namespace(), name.qualifier(), name.as_str()), ("default", "users", "users"));
        assert_eq!(name, "users".parse().unwrap());
        let name: TableName = "shop:users".parse().unwrap();
        assert_eq!((name.namespace(), name.qualifier(), name.as_str()), ("shop", "users", "shop:users"));
    }

    #[test]
    fn the_message_and_the_name_are_the_same_thing() {
        for printed in ["users", "shop:users", "hbase:meta", "größe.v-1_2"] {
            let name: TableName = printed.parse().unwrap();
            let message = pb::TableName::from(&name);
            assert_eq!(TableName::try_from(&message).unwrap(), name);
            assert_eq!(TableName::from_bytes(name.as_bytes()).unwrap(), name);
        }
        assert_eq!(TableName::meta(), "hbase:meta".parse().unwrap());
        assert_eq!(TableName::namespaces(), "hbase:namespace".parse().unwrap());
    }

    #[test]
    fn what_hbase_refuses_is_refused_in_its_words() {
        let refusal = |printed: &str| printed.parse::<TableName>().unwrap_err().to_string();
        assert_eq!(refusal(""), "Name is null or empty");
        assert_eq!(refusal(":t"), "Namespace name must not be empty");
        assert_eq!(refusal("ns:"), "Table qualifier must not be empty");
        assert!(refusal("-t").starts_with("Illegal first character <45> at 0."));
        assert!(refusal("a b").starts_with("Illegal character code:32, < > at 1."));
        assert!(refusal("n-s:t").starts_with("Illegal character <-> at 1. Namespaces"));
        assert!(refusal("zookeeper").contains("'zookeeper'"));
        assert!(TableName::from_bytes(&[0xff]).is_err());
    }
}
