//! Text for row keys and other bytes, as HBase shows them.

use std::fmt::{self, Display, Formatter, Write};

/// Shows bytes as `Bytes.toStringBinary` of HBase does: printable ASCII characters other than the backslash as they are,
/// and each other byte as `\x` and two hexadecimal digits in upper case. So names of regions can be compared with those
/// that HBase's clients and tools print.
#[derive(Clone, Copy, Debug)]
pub struct StringBinary<'a>(&'a [u8]);

/// Returns these bytes for display.
pub fn string_binary(bytes: &[u8]) -> StringBinary<'_> {
    StringBinary(bytes)
}

impl Display for StringBinary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b'\\' => f.write_str("\\x5C")?,
                b' '..=b'~' => f.write_char(byte.into())?,
                _ => write!(f, "\\x{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_in_hbase() {
        let shown = string_binary(b"r1 \"q\" 'x' ~\x7f\x00\xff\n\t\\").to_string();
        assert_eq!(shown, "r1 \"q\" 'x' ~\\x7F\\x00\\xFF\\x0A\\x09\\x5C");
    }
}
