//! The notation of HBase's shell for bytes, and for strings in quotes.

/// Formats bytes as HBase's shell does.
pub(crate) fn escape(bytes: &[u8]) -> String {
    cell::string_binary(bytes).to_string()
}

/// Decodes the result of [`escape`]; other letters stand for themselves.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let (mut out, mut left) = (Vec::with_capacity(text.len()), text);
    while let Some(letter) = left.chars().next() {
        let hex = left.strip_prefix("\\x").and_then(|rest| rest.get(..2));
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            out.push(byte);
            left = &left[4..];
        } else if let Some(rest) = left.strip_prefix("\\\\") {
            out.push(b'\\');
            left = rest;
        } else {
            let mut buffer = [0; 4];
            out.extend(letter.encode_utf8(&mut buffer).as_bytes());
            left = &left[letter.len_utf8()..];
        }
    }
    out
}

/// Returns a text in single quotes, as the shell needs it.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_rows_are_written_and_read_as_the_shell_does() {
        let row = b"a\\b\x00\xff<script>";
        let text = escape(row);
        assert_eq!(text, "a\\x5Cb\\x00\\xFF<script>");
        assert_eq!(unescape(&text), row);
        assert_eq!(unescape("ü\\x4"), "ü\\x4".as_bytes());
    }
}
