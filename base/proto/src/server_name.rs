//! The name of a server: its address and its start code.

use std::fmt;
use std::str::FromStr;

use crate::{Error, pb};

/// The name of a region server or master, formatted as `host,port,startcode`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName {
    /// A host name or address that clients can reach.
    pub host: String,
    /// The port of the server's services.
    pub port: u16,
    /// The start time of the server's process, in ms since 1970.
    pub start_code: u64,
}

impl ServerName {
    /// Returns `host:port`, as hbase:meta stores it.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Parses `host:port`, the address of the server that started at `start_code`.
    pub fn from_address(address: &str, start_code: u64) -> Result<Self, Error> {
        let malformed = || Error::malformed("server address", format!("{address:?}, expected host:port"));
        let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
        Ok(Self { host: host.to_owned(), port: port.parse().map_err(|_| malformed())?, start_code })
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.host, self.port, self.start_code)
    }
}

impl FromStr for ServerName {
    type Err = Error;

    fn from_str(printed: &str) -> Result<Self, Error> {
        let malformed =
            || Error::malformed("server name", format!("{printed:?}, expected host,port,startcode"));
        let mut parts = printed.split(',');
        let (Some(host), Some(port), Some(code), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed());
        };
        Ok(Self {
            host: host.to_owned(),
            port: port.parse().map_err(|_| malformed())?,
            start_code: code.parse().map_err(|_| malformed())?,
        })
    }
}

impl TryFrom<&pb::ServerName> for ServerName {
    type Error = Error;

    fn try_from(name: &pb::ServerName) -> Result<Self, Error> {
        let port = name.port();
        Ok(Self {
            host: name.host_name.clone(),
            port: u16::try_from(port).map_err(|_| {
                Error::malformed("server name", format!("port {port}, expected at most 65535"))
            })?,
            start_code: name.start_code(),
        })
    }
}

impl From<&ServerName> for pb::ServerName {
    fn from(name: &ServerName) -> Self {
        Self { host_name: name.host.clone(), port: Some(name.port.into()), start_code: Some(name.start_code) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_comes_back() {
        let name = ServerName { host: "node-1.example".into(), port: 16020, start_code: 1_700_000_000_123 };
        assert_eq!(name.to_string(), "node-1.example,16020,1700000000123");
        assert_eq!(name.to_string().parse::<ServerName>().unwrap(), name);
        assert_eq!(ServerName::try_from(&pb::ServerName::from(&name)).unwrap(), name);
        assert_eq!(ServerName::from_address(&name.address(), name.start_code).unwrap(), name);
    }

    #[test]
    fn half_a_name_is_refused() {
        for bad in ["", "host", "host,1", "host,x,1", "host,1,2,3", "host,70000,1"] {
            assert!(bad.parse::<ServerName>().is_err(), "{bad}");
        }
        assert!(ServerName::from_address("host", 1).is_err());
    }
}
