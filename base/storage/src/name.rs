//! Names of files.

use std::fmt;

/// The name of a file or folder, from the root: parts joined by `/`, none of them empty, `.` or `..`.
///
/// The empty name is the root folder itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(Box<str>);

impl FileName {
    /// Returns the root folder.
    pub fn root() -> FileName {
        FileName("".into())
    }

    /// Creates a name. Names come from our own code, never from input.
    ///
    /// # Panics
    /// When a part is empty, `.` or `..`, or contains a NUL.
    pub fn new(name: impl Into<Box<str>>) -> FileName {
        let name = name.into();
        assert!(name.is_empty() || are_parts(&name), "not a file name: {name:?}");
        FileName(name)
    }

    /// Returns the name of `part` (one part or several) in this folder.
    ///
    /// # Panics
    /// As [`new`](FileName::new).
    pub fn join(&self, part: &str) -> FileName {
        if self.0.is_empty() {
            return FileName::new(part);
        }
        assert!(are_parts(part), "not a file name: {part:?}");
        let mut name = String::with_capacity(self.0.len() + 1 + part.len());
        name.push_str(&self.0);
        name.push('/');
        name.push_str(part);
        FileName(name.into_boxed_str())
    }

    /// Returns the last part; empty for the root.
    pub fn last(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }

    /// Returns the parent folder; `None` for the root.
    pub fn parent(&self) -> Option<FileName> {
        if self.0.is_empty() {
            return None;
        }
        Some(FileName(self.0.rfind('/').map_or("", |slash| &self.0[..slash]).into()))
    }

    /// Returns the rest of the name after `folder`; `None` if the file is not below `folder`.
    pub fn below<'a>(&'a self, folder: &FileName) -> Option<&'a str> {
        if folder.0.is_empty() {
            return Some(&self.0);
        }
        self.0.strip_prefix(&*folder.0)?.strip_prefix('/')
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether `name` consists of parts that file names may have.
fn are_parts(name: &str) -> bool {
    let is_part = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    !name.as_bytes().contains(&0) && name.as_bytes().split(|byte| *byte == b'/').all(is_part)
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_nest() {
        let file = FileName::new("data/default").join("t/.tabledesc");
        assert_eq!(file.as_str(), "data/default/t/.tabledesc");
        assert_eq!(file.last(), ".tabledesc");
        assert_eq!(file.parent(), Some(FileName::new("data/default/t")));
        assert_eq!(file.below(&FileName::new("data")), Some("default/t/.tabledesc"));
        assert_eq!(file.below(&FileName::new("dat")), None, "a folder is more than a prefix");
        assert_eq!(FileName::new("a").parent(), Some(FileName::root()));
        assert_eq!(FileName::root().join("a"), FileName::new("a"));
    }

    #[test]
    #[should_panic(expected = "not a file name")]
    fn names_do_not_climb() {
        FileName::root().join("../etc");
    }
}
