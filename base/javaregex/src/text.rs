//! Decodes bytes to the text that Java sees: UTF-16 units, or the bytes themselves where each is one character below
//! 256.

/// A text as a sequence of units.
pub(super) trait Text {
    /// Returns the number of units.
    fn len(&self) -> usize;
    /// Returns the unit at `at`, which is less than the length.
    fn unit(&self, at: usize) -> u32;
    /// Returns the code point that begins at `at`, which is less than the length. A lone surrogate is a code point.
    fn point(&self, at: usize) -> u32;
    /// Returns the code point that ends at `at`, which is greater than 0.
    fn point_before(&self, at: usize) -> u32;
    /// Returns the number of units of a code point.
    fn width(point: u32) -> usize;
}

/// A text with one unit for each byte: ISO-8859-1, or ASCII in any charset.
pub(super) struct Narrow<'a>(pub(super) &'a [u8]);

impl Text for Narrow<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn unit(&self, at: usize) -> u32 {
        self.0[at].into()
    }

    #[inline]
    fn point(&self, at: usize) -> u32 {
        self.0[at].into()
    }

    fn point_before(&self, at: usize) -> u32 {
        self.0[at - 1].into()
    }

    fn width(_: u32) -> usize {
        1
    }
}

/// A text in UTF-16 units.
pub(super) struct Wide<'a>(pub(super) &'a [u16]);

fn pair(high: u32, low: u32) -> Option<u32> {
    ((0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low))
        .then(|| 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
}

impl Text for Wide<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn unit(&self, at: usize) -> u32 {
        self.0[at].into()
    }

    #[inline]
    fn point(&self, at: usize) -> u32 {
        let unit = self.unit(at);
        match self.0.get(at + 1) {
            Some(low) if unit >= 0xd800 => pair(unit, (*low).into()).unwrap_or(unit),
            _ => unit,
        }
    }

    fn point_before(&self, at: usize) -> u32 {
        let unit = self.unit(at - 1);
        if at < 2 { unit } else { pair(self.unit(at - 2), unit).unwrap_or(unit) }
    }

    fn width(point: u32) -> usize {
        1 + usize::from(point > 0xffff)
    }
}

/// The charset in which bytes are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Charset {
    /// UTF-8. Invalid bytes become U+FFFD.
    #[default]
    Utf8,
    /// ISO-8859-1: each byte is the character with its number. Clients with binary rows choose it.
    Latin1,
    /// US-ASCII. Bytes from 128 on become U+FFFD.
    Ascii,
    /// UTF-16, big endian unless a byte order mark at the beginning says otherwise.
    Utf16,
    /// UTF-16, big endian.
    Utf16Be,
    /// UTF-16, little endian.
    Utf16Le,
}

impl Charset {
    /// Returns the charset with this name or alias in Java, in any case; `None` for any other name.
    pub fn by_name(name: &str) -> Option<Charset> {
        Some(match name.to_ascii_uppercase().as_str() {
            "UTF-8" | "UTF8" | "UNICODE-1-1-UTF-8" => Charset::Utf8,
            "ISO-8859-1" | "ISO8859_1" | "ISO_8859_1" | "ISO_8859-1" | "ISO8859-1" | "LATIN1" | "L1"
            | "ISO-IR-100" | "IBM819" | "CP819" | "IBM-819" | "819" | "8859_1" | "ISO_8859-1:1987"
            | "CSISOLATIN1" => Charset::Latin1,
            "US-ASCII" | "ASCII" | "ISO646-US" | "ASCII7" | "646" | "ISO-IR-6" | "ANSI_X3.4-1968"
            | "ANSI_X3.4-1986" | "ISO_646.IRV:1991" | "ISO_646.IRV:1983" | "US" | "IBM367" | "CP367"
            | "DEFAULT" | "CSASCII" => Charset::Ascii,
            "UTF-16" | "UTF16" | "UTF_16" | "UNICODE" | "UNICODEBIG" => Charset::Utf16,
            "UTF-16BE" | "UTF_16BE" | "ISO-10646-UCS-2" | "X-UTF-16BE" | "UNICODEBIGUNMARKED" => {
                Charset::Utf16Be
            }
            "UTF-16LE" | "UTF_16LE" | "X-UTF-16LE" | "UNICODELITTLEUNMARKED" => Charset::Utf16Le,
            _ => return None,
        })
    }

    /// Returns the bytes as text if each byte is one character; `None` otherwise, and for UTF-16.
    pub(super) fn narrow(self, bytes: &[u8]) -> Option<Narrow<'_>> {
        match self {
            Charset::Latin1 => Some(Narrow(bytes)),
            Charset::Utf8 | Charset::Ascii => bytes.is_ascii().then_some(Narrow(bytes)),
            Charset::Utf16 | Charset::Utf16Be | Charset::Utf16Le => None,
        }
    }

    /// Decodes the bytes to UTF-16 units in `out`.
    pub(super) fn widen(self, bytes: &[u8], out: &mut Vec<u16>) {
        out.clear();
        match self {
            Charset::Utf8 => utf8(bytes, out),
            Charset::Latin1 => out.extend(bytes.iter().map(|byte| u16::from(*byte))),
            Charset::Ascii => {
                out.extend(bytes.iter().map(|byte| if *byte < 128 { (*byte).into() } else { REPLACED }))
            }
            Charset::Utf16Be => utf16(bytes, u16::from_be_bytes, out),
            Charset::Utf16Le => utf16(bytes, u16::from_le_bytes, out),
            Charset::Utf16 => match bytes.strip_prefix(&[0xff, 0xfe]) {
                Some(bytes) => utf16(bytes, u16::from_le_bytes, out),
                None => utf16(bytes.strip_prefix(&[0xfe, 0xff]).unwrap_or(bytes), u16::from_be_bytes, out),
            },
        }
    }
}

/// The replacement character for invalid bytes.
const REPLACED: u16 = 0xfffd;

/// Decodes UTF-8 as Java does. Java differs from the standard in the number of U+FFFD that replace invalid bytes. The
/// three bytes of an encoded surrogate become one U+FFFD, and so do the bytes of a character that is cut off at the end
/// of the text.
fn utf8(bytes: &[u8], out: &mut Vec<u16>) {
    let goes_on = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let low = |at: usize| bytes.get(at).map_or(0, |byte| u32::from(byte & 0x3f));
    let mut at = 0;
    while let Some(&first) = bytes.get(at) {
        let left = bytes.len() - at;
        let head = u32::from(first);
        // Whether the second byte cannot follow the first.
        let second = bytes.get(at + 1).copied().unwrap_or(0);
        let broken = match first {
            0xe0 => second & 0xe0 == 0x80 || !goes_on(at + 1),
            0xf0 => second < 0x90 || !goes_on(at + 1),
            0xf4 => second & 0xf0 != 0x80,
            _ => !goes_on(at + 1),
        };
        let (taken, point) = match first {
            0..0x80 => (1, head),
            0xc2..0xe0 if left == 1 => (left, 0xfffd),
            0xc2..0xe0 if !goes_on(at + 1) => (1, 0xfffd),
            0xc2..0xe0 => (2, (head & 0x1f) << 6 | low(at + 1)),
            0xe0..0xf0 if left < 3 => (if left == 2 && broken { 1 } else { left }, 0xfffd),
            0xe0..0xf0 if broken => (1, 0xfffd),
            0xe0..0xf0 if !goes_on(at + 2) => (2, 0xfffd),
            0xe0..0xf0 => (3, (head & 0x0f) << 12 | low(at + 1) << 6 | low(at + 2)),
            0xf0..0xf5 if left < 4 && left > 1 && broken => (1, 0xfffd),
            0xf0..0xf5 if left == 3 && !goes_on(at + 2) => (2, 0xfffd),
            0xf0..0xf5 if left < 4 => (left, 0xfffd),
            0xf0..0xf5 if broken => (1, 0xfffd),
            0xf0..0xf5 if !goes_on(at + 2) => (2, 0xfffd),
            0xf0..0xf5 if !goes_on(at + 3) => (3, 0xfffd),
            0xf0..0xf5 => (4, (head & 0x07) << 18 | low(at + 1) << 12 | low(at + 2) << 6 | low(at + 3)),
            _ => (1, 0xfffd),
        };
        let point = char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(point.encode_utf16(&mut [0; 2]));
        at += taken;
    }
}

/// Decodes UTF-16 as Java does. A high surrogate without its low surrogate is replaced together with the unit after it,
/// and so is a byte order mark of the other byte order.
fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16, out: &mut Vec<u16>) {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let mut units = pairs.iter().map(|pair| unit(*pair));
    let mut cut = !odd.is_empty();
    while let Some(unit) = units.next() {
        match unit {
            0xd800..0xdc00 => match units.next() {
                Some(low @ 0xdc00..0xe000) => out.extend([unit, low]),
                Some(_) => out.push(REPLACED),
                // The text ends with the high surrogate, perhaps followed by an odd byte. Both together are replaced
                // once, below.
                None => cut = true,
            },
            0xdc00..0xe000 | 0xfffe => out.push(REPLACED),
            _ => out.push(unit),
        }
    }
    if cut {
        out.push(REPLACED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(charset: Charset, bytes: &[u8]) -> String {
        let mut out = Vec::new();
        charset.widen(bytes, &mut out);
        String::from_utf16_lossy(&out)
    }

    #[test]
    fn bytes_that_are_invalid_in_the_charset_are_replaced_as_in_java() {
        assert_eq!(units(Charset::Utf8, b"a\xed\xa0\x80b\xf0\x9f\x98"), "a\u{fffd}b\u{fffd}");
        assert_eq!(units(Charset::Ascii, b"a\xff"), "a\u{fffd}");
        assert_eq!(units(Charset::Utf16, b"\xff\xfea\0"), "a");
        assert_eq!(units(Charset::Utf16, b"\xd8\x00\x00a\x00b\xd8"), "\u{fffd}b\u{fffd}");
        assert_eq!(units(Charset::Utf16Le, b"\x3d\xd8\x00\xde"), "\u{1f600}");
    }

    #[test]
    fn charsets_are_found_by_the_names_of_java() {
        assert_eq!(Charset::by_name("utf-8"), Some(Charset::Utf8));
        assert_eq!(Charset::by_name("latin1"), Some(Charset::Latin1));
        assert_eq!(Charset::by_name("UTF-16le"), Some(Charset::Utf16Le));
        assert_eq!(Charset::by_name("windows-1252"), None);
    }
}
