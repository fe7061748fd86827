//! Reads lists of packages as apt keeps them: stanzas of `Field: value` lines, with an empty line between two stanzas.
//! A line that begins with a space or a tab continues the value of the previous line.
#![expect(clippy::disallowed_methods, reason = "the lists are files of the machine, not of a server")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::Failure;
use crate::version::compare;

const APT: &str = "/var/lib/apt/lists";

/// The magic bytes of an LZ4 frame.
const LZ4: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// The magic bytes of other compressors, and the programs that decompress them.
const COMPRESSED: [(&[u8], &str); 3] = [
    (&[0x1f, 0x8b], "gzip -d"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz -d"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -d"),
];

/// One version of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stanza {
    /// The name and value of each field, sorted by name.
    pub(crate) fields: Vec<(Bytes, Bytes)>,
}

impl Stanza {
    pub(crate) fn value(&self, field: &str) -> Option<&Bytes> {
        self.fields.iter().find(|(name, _)| name == field).map(|(_, value)| value)
    }
}

/// The versions of each package, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) packages: BTreeMap<Bytes, Vec<Stanza>>,
}

/// Returns the package lists of apt on this machine.
pub(crate) fn lists_of_apt() -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(APT)
        .map_err(|error| format!("{APT}: {error}; this is no Debian: name a list, a Packages file"))?;
    let mut lists = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let stem = [".lz4", ".gz", ".xz", ".zst"].iter().find_map(|end| name.strip_suffix(end));
        if stem.unwrap_or(&name).ends_with("_Packages") {
            lists.push(Path::new(APT).join(&*name));
        }
    }
    lists.sort();
    if lists.is_empty() {
        return Err(format!("{APT} has no lists: run apt-get update as root, or name a list").into());
    }
    Ok(lists)
}

impl Index {
    /// Adds a list, and returns the number of new versions. A stanza that is equal to one of an earlier list is no new
    /// version.
    pub(crate) fn add(&mut self, list: &Path) -> Result<usize, Failure> {
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", list.display());
        let content = read(list).map_err(|error| failed(&error))?;
        let before = self.versions();
        for stanza in stanzas(&content).map_err(|error| failed(&error))? {
            let name = stanza.value("Package").cloned().ok_or_else(|| failed(&"a stanza without Package"))?;
            let version =
                stanza.value("Version").cloned().ok_or_else(|| failed(&"a stanza without Version"))?;
            let versions = self.packages.entry(name).or_default();
            if !versions.contains(&stanza) {
                let older = |other: &Stanza| {
                    other.value("Version").is_some_and(|other| compare(other, &version).is_le())
                };
                let at = versions.partition_point(older);
                versions.insert(at, stanza);
            }
        }
        Ok(self.versions() - before)
    }

    pub(crate) fn versions(&self) -> usize {
        self.packages.values().map(Vec::len).sum()
    }

    pub(crate) fn fields(&self) -> usize {
        self.packages.values().flatten().map(|stanza| stanza.fields.len()).sum()
    }
}

fn read(list: &Path) -> Result<Bytes, Failure> {
    let content = std::fs::read(list)?;
    if content.starts_with(&LZ4) {
        let mut plain = Vec::new();
        lz4_flex::frame::FrameDecoder::new(&content[..]).read_to_end(&mut plain)?;
        return Ok(plain.into());
    }
    match COMPRESSED.iter().find(|(magic, _)| content.starts_with(magic)) {
        Some((_, remedy)) => Err(format!("it is compressed: {remedy} on a copy, and name that").into()),
        None => Ok(content.into()),
    }
}

fn stanzas(content: &Bytes) -> Result<Vec<Stanza>, Failure> {
    let mut stanzas = Vec::new();
    // The offsets of each field in the stanza: the begin of its name, and the begin and the end of its value.
    let mut fields: Vec<(usize, usize, usize)> = Vec::new();
    let mut at = 0;
    let mut line_number = 0usize;
    while at < content.len() {
        line_number += 1;
        let end =
            content[at..].iter().position(|byte| *byte == b'\n').map_or(content.len(), |length| at + length);
        let line = &content[at..end];
        match line.first() {
            None => finish(content, &mut fields, &mut stanzas)?,
            Some(b' ' | b'\t') => {
                fields.last_mut().ok_or(format!("line {line_number} goes on with no field"))?.2 = end;
            }
            Some(_) => {
                let colon = line.iter().position(|byte| *byte == b':');
                let colon = colon.ok_or(format!("line {line_number} is no field"))?;
                fields.push((at, at + colon, end));
            }
        }
        at = end + 1;
    }
    finish(content, &mut fields, &mut stanzas)?;
    Ok(stanzas)
}

fn finish(
    content: &Bytes,
    fields: &mut Vec<(usize, usize, usize)>,
    stanzas: &mut Vec<Stanza>,
) -> Result<(), Failure> {
    if fields.is_empty() {
        return Ok(());
    }
    let value = |colon: usize, end: usize| {
        let blanks = content[colon + 1..end].iter().take_while(|byte| **byte == b' ').count();
        content.slice(colon + 1 + blanks..end)
    };
    let mut fields: Vec<(Bytes, Bytes)> =
        fields.drain(..).map(|(at, colon, end)| (content.slice(at..colon), value(colon, end))).collect();
    fields.sort();
    match fields.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(format!("a stanza with two fields {}", pair[0].0.escape_ascii()).into()),
        None => {
            stanzas.push(Stanza { fields });
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stanzas_are_read_with_the_lines_that_go_on() {
        let text = "Package: a\nDescription: short\n long\n .\n more\nVersion:2\n\n\nPackage: b\nVersion: 1";
        let read = stanzas(&Bytes::from(text)).expect("good");
        let value = |index: usize, field| read[index].value(field).expect("there").clone();
        assert_eq!(read.len(), 2);
        assert_eq!(value(0, "Description"), "short\n long\n .\n more");
        assert_eq!((value(0, "Version"), value(1, "Package")), ("2".into(), "b".into()));
        for bad in [" goes on", "no field", "A: 1\nA: 2"] {
            assert!(stanzas(&Bytes::from(bad)).is_err(), "{bad}");
        }
    }
}
