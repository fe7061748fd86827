//! Shortens a stream that shows a difference, and prints it as a test.

use crate::stream::{Operation, Setup};
use crate::subject::{Difference, run};

/// A shortened stream that shows a difference.
#[derive(Debug)]
pub struct Found {
    /// The setup of the region.
    pub setup: Setup,
    /// The operations.
    pub stream: Vec<Operation>,
    /// The difference.
    pub difference: Box<Difference>,
}

/// Removes operations, then changes of batches, then cells, while some difference remains.
pub fn shorter(setup: &Setup, stream: &[Operation], difference: Box<Difference>) -> Found {
    let end = stream.len().min(difference.at + 1);
    let mut found = Found { setup: setup.clone(), stream: stream[..end].to_vec(), difference };
    let mut size = found.stream.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < found.stream.len() {
            let mut less = found.stream.clone();
            less.drain(at..(at + size).min(less.len()));
            if !found.take(less) {
                at += size;
            }
        }
        size /= 2;
    }
    for at in 0..found.stream.len() {
        while let Some(less) = parts_of(&found.stream[at]).into_iter().find_map(|act| {
            let mut less = found.stream.clone();
            less[at] = act;
            run(&found.setup, &less).is_err().then_some(less)
        }) {
            found.take(less);
        }
    }
    found
}

impl Found {
    fn take(&mut self, stream: Vec<Operation>) -> bool {
        match run(&self.setup, &stream) {
            Err(difference) => {
                self.difference = difference;
                self.stream = stream;
                true
            }
            Ok(_) => false,
        }
    }

    /// Returns the code of a test that shows the difference.
    pub fn as_test(&self) -> String {
        let code = |debug: String| debug.replace('[', "vec![");
        let acts: String =
            self.stream.iter().map(|act| format!("            {},\n", code(format!("{act:?}")))).collect();
        format!(
            "#[test]\nfn found() {{\n    // {}\n    check(\n        &{},\n        &[\n{acts}        ],\n    );\n}}\n",
            self.difference.to_string().replace('\n', "\n    // "),
            code(format!("{:?}", self.setup)),
        )
    }
}

/// Returns every operation that has one change or cell less than `act`.
fn parts_of(act: &Operation) -> Vec<Operation> {
    let without = |changes: &[crate::stream::Change]| {
        let mut ways = Vec::new();
        for at in 0..changes.len() {
            if changes.len() > 1 {
                let mut less = changes.to_vec();
                less.remove(at);
                ways.push(less);
            }
            for part in 0..changes[at].parts.len() {
                if changes[at].parts.len() > 1 {
                    let mut less = changes.to_vec();
                    less[at].parts.remove(part);
                    ways.push(less);
                }
            }
        }
        ways
    };
    match act {
        Operation::Batch(changes) => without(changes).into_iter().map(Operation::Batch).collect(),
        Operation::Row(changes) => without(changes).into_iter().map(Operation::Row).collect(),
        Operation::CheckThen(check, changes) => {
            without(changes).into_iter().map(|less| Operation::CheckThen(check.clone(), less)).collect()
        }
        _ => Vec::new(),
    }
}
