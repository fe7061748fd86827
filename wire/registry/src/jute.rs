//! Jute, ZooKeeper's record encoding: big-endian numbers, and a length of four bytes before text, bytes and lists.
//!
//! A length of -1 means null, which ZooKeeper's clients send for an empty value. This reader returns an empty value for
//! it.

/// The error of input that ends early or contains invalid text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed record: {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (chunk, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed("it ends within a number"))?;
        self.0 = rest;
        Ok(*chunk)
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        self.chunk().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        self.chunk().map(i64::from_be_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        self.chunk().map(|[byte]| byte != 0)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.int()?;
        if length == -1 {
            return Ok(&[]);
        }
        let length = usize::try_from(length).map_err(|_| Malformed("negative length"))?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed("length beyond the record"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("text is not UTF-8"))
    }

    pub(crate) fn texts(&mut self) -> Result<Vec<&'a str>, Malformed> {
        let count = self.int()?;
        // The list grows with the data that was received, because the count comes from the client and may be false.
        let mut texts = Vec::new();
        for _ in 0..count.max(0) {
            texts.push(self.text()?);
        }
        Ok(texts)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// Starts a frame, whose length [`Writer::finish`] fills in.
    pub(crate) fn frame() -> Writer {
        Writer(vec![0; 4])
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }

    pub(crate) fn int(&mut self, value: i32) -> &mut Writer {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn long(&mut self, value: i64) -> &mut Writer {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn bool(&mut self, value: bool) -> &mut Writer {
        self.0.push(u8::from(value));
        self
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Writer {
        self.int(value.len() as i32);
        self.0.extend_from_slice(value);
        self
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut Writer {
        self.bytes(value.as_bytes())
    }

    pub(crate) fn texts<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a str>) -> &mut Writer {
        self.int(values.len() as i32);
        for value in values {
            self.text(value);
        }
        self
    }
}
