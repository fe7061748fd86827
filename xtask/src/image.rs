//! File systems in files, mounted through loop devices, whose power can be cut.
//!
//! A cut shuts the file system down without writing anything more, including its journal (`FS_IOC_SHUTDOWN` with
//! `NOLOGFLUSH`). The next mount replays the journal as after a loss of power.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::{Outcome, run as run_command};

/// The file systems, and the command that creates each in an image.
pub(crate) const KINDS: [(&str, &[&str]); 2] =
    [("ext4", &["mkfs.ext4", "-q", "-F"]), ("xfs", &["mkfs.xfs", "-q", "-f"])];
/// Size of an image in bytes; the file is sparse. XFS needs at least 300 MB, and two hours of fire more than 1 GB.
const IMAGE_BYTES: u64 = 3 << 30;

/// A running `xfs_io`, which reads commands from its input.
pub(crate) struct Cutter {
    child: Child,
    input: ChildStdin,
}

impl Cutter {
    /// Cuts the power: nothing more reaches the image.
    pub(crate) fn cut(mut self) -> Outcome {
        self.input.write_all(b"shutdown\n").map_err(|error| format!("xfs_io: {error}"))?;
        drop(self.input);
        let status = self.child.wait().map_err(|error| format!("xfs_io: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("xfs_io -c shutdown ended with {status}")) }
    }
}

/// A file system in a file.
pub(crate) struct Image {
    pub(crate) kind: &'static str,
    pub(crate) folder: PathBuf,
    pub(crate) file: PathBuf,
}

impl Image {
    pub(crate) fn make(folder: &Path, kind: &'static str, make: &[&str]) -> Result<Image, String> {
        Image::make_of_size(folder, kind, make, IMAGE_BYTES)
    }

    /// Makes a file system of this size in bytes, which is at least 300 MB for XFS.
    pub(crate) fn make_of_size(
        folder: &Path,
        kind: &'static str,
        make: &[&str],
        bytes: u64,
    ) -> Result<Image, String> {
        let failed = |error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder.join("mount")).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        let file = folder.join("image");
        File::create(&file).and_then(|image| image.set_len(bytes)).map_err(failed)?;
        run_command(make[0], &[&make[1..], &[&file.display().to_string()]].concat())?;
        Ok(Image { kind, folder, file })
    }

    pub(crate) fn mount(&self) -> Result<Mount, String> {
        let at = self.folder.join("mount");
        // With this option the loop device is removed when the file system is unmounted.
        let words =
            ["-t", self.kind, "-o", "loop", &self.file.display().to_string(), &at.display().to_string()];
        let output = Command::new("mount")
            .args(words)
            .output()
            .map_err(|error| format!("cannot start mount: {error}"))?;
        if !output.status.success() {
            return Err(format!("mount {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)));
        }
        Ok(Mount { at, mounted: true })
    }
}

/// A mounted file system, which is unmounted when the value is dropped.
pub(crate) struct Mount {
    pub(crate) at: PathBuf,
    mounted: bool,
}

impl Mount {
    /// Prepares the cut, so that only the cut itself remains to be done.
    pub(crate) fn cutter(&self) -> Result<Cutter, String> {
        let mut child = Command::new("xfs_io")
            .arg("-x")
            .arg(&self.at)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start xfs_io: {error}"))?;
        let input = child.stdin.take().expect("it is piped");
        Ok(Cutter { child, input })
    }

    /// Checks that the file system is down.
    pub(crate) fn is_down(&self) -> Outcome {
        match File::create(self.at.join("after")) {
            Err(_) => Ok(()),
            Ok(_) => Err(format!("{} takes files after its shutdown", self.at.display())),
        }
    }

    pub(crate) fn unmount(mut self) -> Outcome {
        self.mounted = false;
        run_command("umount", &[&self.at.display().to_string()])
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.mounted {
            // The file system is unmounted lazily, because a server may use it until its owner ends the server.
            let _gone = Command::new("umount").arg("--lazy").arg(&self.at).stderr(Stdio::null()).status();
        }
    }
}
