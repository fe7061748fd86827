//! Standard output and standard error of the commands.
//!
//! `println!` panics if it cannot write. A command whose reader has closed the pipe, as in `bellows keys | head -1`,
//! ends silently instead. Any other failure to write is reported.

use std::io::{self, ErrorKind, Write};

use crate::failure::Failure;

/// Writes a text to standard output.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a line to standard output.
pub(crate) fn say(line: &str) -> io::Result<()> {
    write(&format!("{line}\n"))
}

/// Writes a line to standard error. Ignores a failure, which could be reported nowhere.
pub(crate) fn write_error(line: &str) {
    let _nobody_reads = writeln!(io::stderr().lock(), "{line}");
}

/// The outcome of a command after it wrote: success if its reader has closed the pipe.
pub(crate) fn ignoring_closed_pipe(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::new(format!("cannot write to standard output: {error}"))),
    }
}
