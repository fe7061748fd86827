//! Files of this machine outside the data directory, which an operator names by path: those of a bulk load.
//!
//! The files belong to the operator. The server only reads them, and deletes a file once its content has been taken
//! over.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::local::Reader;
use crate::{Error, FileName, FileReader, Kind, Outcome, Result};

/// Opens the file at an absolute path for reading. Fails with [`Kind::NotFound`] if it does not exist or is a folder.
pub fn open_outside(path: &Path) -> Result<Arc<dyn FileReader>> {
    let name = name_of(path)?;
    let failed = |source: io::Error| Error::from_io(&source, Outcome::DidNotHappen, &name, "open");
    // Without the flag, the opening of a pipe would wait for somebody who writes into it. It has no effect on a file.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(
            Error::new(Kind::NotFound, Outcome::DidNotHappen, &name, "open").because("it is not a file")
        );
    }
    Ok(Arc::new(Reader { file, name, size: metadata.len() }))
}

/// Deletes the file at an absolute path, but not its folder. Deleting an absent file succeeds.
pub fn delete_outside(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::from_io(&error, Outcome::DidNotHappen, &name_of(path)?, "delete"))
        }
        _ => Ok(()),
    }
}

/// Returns the path, without its leading slash, as a name for messages.
fn name_of(path: &Path) -> Result<FileName> {
    path.to_str().map(|path| FileName::new(path.trim_start_matches('/'))).ok_or_else(|| {
        let name = FileName::new(path.to_string_lossy().trim_start_matches('/'));
        Error::new(Kind::NotFound, Outcome::DidNotHappen, &name, "open").because("the path is not UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_outside_is_read_and_deleted_and_a_folder_is_not() {
        let unique = env::World::real().random();
        let folder = std::env::temp_dir().join(format!("bellows-storage-outside-{unique:x}"));
        let path = folder.join("file");
        fs::create_dir(&folder).expect("the test's own folder");
        fs::write(&path, b"content").expect("written");
        let mut read = [0; 4];
        open_outside(&path).expect("there").read_at(3, &mut read).expect("read");
        assert_eq!(&read, b"tent");
        let pipe = folder.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("made");
        for place in [&folder, &folder.join("other"), &pipe] {
            let error = open_outside(place).map(drop).expect_err("no file");
            assert_eq!(error.kind(), Kind::NotFound, "{error}");
        }
        delete_outside(&path).expect("deleted");
        delete_outside(&path).expect("deleted before");
        delete_outside(&pipe).expect("deleted");
        assert!(delete_outside(&folder).is_err(), "folders stay");
        fs::remove_dir(&folder).expect("empty");
    }
}
