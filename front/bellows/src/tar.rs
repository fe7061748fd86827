//! Writes tar files (POSIX ustar), of plain files alone.
//!
//! ```text
//!   header of 512 bytes ── content, filled with zeros to 512 ── … ── two blocks of zeros
//! ```

use crate::failure::Failure;

/// Bytes of a header, and the unit of contents.
const BLOCK: usize = 512;
/// Bytes of a name at most.
const NAME_MAX: usize = 100;

/// A tar file in memory.
#[derive(Debug, Default)]
pub(crate) struct Tar(Vec<u8>);

impl Tar {
    /// Adds a file. `time` is in seconds since 1970.
    pub(crate) fn add(&mut self, name: &str, content: &[u8], time: u64) -> Result<(), Failure> {
        if name.len() > NAME_MAX {
            return Err(Failure::new(format!(
                "{name} has {} bytes, expected at most {NAME_MAX}",
                name.len()
            )));
        }
        let mut header = [0_u8; BLOCK];
        let mut set = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        set(0, name.as_bytes());
        set(100, b"0000600\0");
        set(108, b"0000000\0");
        set(116, b"0000000\0");
        set(124, format!("{:011o}\0", content.len()).as_bytes());
        set(136, format!("{time:011o}\0").as_bytes());
        // The sum is made with blanks in its own place.
        set(148, b"        ");
        set(156, b"0");
        set(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend(header);
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        Ok(())
    }

    /// The whole file.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_name_size_and_sum_where_readers_look() {
        let mut tar = Tar::default();
        tar.add("a/b.txt", b"hello", 8).expect("short");
        let bytes = tar.finish();
        assert_eq!(bytes.len(), 4 * BLOCK);
        assert!(bytes.starts_with(b"a/b.txt\0"));
        assert_eq!((&bytes[124..136], &bytes[136..148]), (&b"00000000005\0"[..], &b"00000000010\0"[..]));
        assert_eq!(&bytes[512..518], b"hello\0");
        let sum: u32 = (0..BLOCK)
            .map(|at| if (148..156).contains(&at) { u32::from(b' ') } else { u32::from(bytes[at]) })
            .sum();
        assert_eq!(&bytes[148..156], format!("{sum:06o}\0 ").as_bytes());
        let long = "x".repeat(NAME_MAX + 1);
        assert!(Tar::default().add(&long, b"", 0).expect_err("too long").to_string().contains("at most 100"));
    }
}
