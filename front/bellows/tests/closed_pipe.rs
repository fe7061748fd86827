//! Tests what the commands do when nobody reads their output, as in `bellows keys | head -1`.

#![expect(clippy::disallowed_types, reason = "a process with real pipes is the point")]

use std::process::{Command, Output, Stdio};

fn bellows(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellows"));
    command.args(arguments);
    command
}

/// Returns a pipe that nobody reads any more.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_whose_reader_has_gone_ends_without_a_word() {
    for arguments in [&["keys"][..], &["bench", "--list"], &["--help"], &["--version"], &["start", "--help"]]
    {
        let output = bellows(arguments).stdout(closed()).stderr(Stdio::piped()).output().expect("it starts");
        assert_eq!((output.status.code(), &errors(&output)[..]), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_failure_that_nobody_reads_keeps_its_status() {
    let unknown = bellows(&["start", "--nonsense"]).stderr(closed()).status().expect("it starts");
    assert_eq!(unknown.code(), Some(2));
    let refused =
        bellows(&["start", "--data-dir", "s3://bucket/x"]).stderr(closed()).status().expect("it starts");
    assert_eq!(refused.code(), Some(1));
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_cannot_be_written_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let output = bellows(&["keys"]).stdout(full).stderr(Stdio::piped()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let line = errors(&output);
    assert!(line.starts_with("bellows: cannot write to standard output: No space left"), "{line}");
}
