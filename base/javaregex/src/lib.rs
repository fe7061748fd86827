//! Regular expressions in the language of `java.util.regex`, as RegexStringComparator has them.
//!
//! Clients write patterns for Java, whose language differs from that of other engines in many details: `$` before a
//! last line end, classes with union and intersection, the groups that a repeated group captures, the look-behinds that
//! are allowed. So this crate parses Java's syntax and matches as Java 17 does, with its version of Unicode. It is
//! tested against Java: `cargo xtask regex` compares any number of random patterns and texts, and `tests/java.rs`
//! replays recorded answers.
//!
//! 1. [`parse`] reads a pattern into a tree ([`syntax`]), and reports errors in Java's words.
//! 2. [`program`] compiles the tree to a program.
//! 3. [`text`] decodes bytes to UTF-16 units, or uses the bytes where each is one character.
//! 4. [`machine`] runs the program over the text, with a stack of its own and a limit of steps.
//!
//! Not supported: `\N{name}`, the flag `CANON_EQ` (canonical equivalence), groups nested deeper than 250. They are
//! errors. `(?c)` in a pattern has no effect.

mod machine;
mod parse;
mod program;
mod set;
mod syntax;
#[rustfmt::skip]
mod tables;
mod text;
mod unicode;

use std::cell::RefCell;
use std::fmt;

pub use text::Charset;

use program::Program;
use text::Wide;

/// The flags of `java.util.regex.Pattern`.
pub mod flag {
    /// Only `\n` ends a line.
    pub const UNIX_LINES: i32 = 1;
    /// Ignores the case of ASCII letters; with `UNICODE_CASE`, of all letters.
    pub const CASE_INSENSITIVE: i32 = 2;
    /// Ignores white space and comments in the pattern.
    pub const COMMENTS: i32 = 4;
    /// `^` and `$` match at every line.
    pub const MULTILINE: i32 = 8;
    /// The pattern is a literal.
    pub const LITERAL: i32 = 16;
    /// `.` matches line ends, too.
    pub const DOTALL: i32 = 32;
    /// Case is compared by Unicode's rules.
    pub const UNICODE_CASE: i32 = 64;
    /// Characters are compared by their canonical decomposition; not supported.
    pub const CANON_EQ: i32 = 128;
    /// `\w` and the like have Unicode's meaning.
    pub const UNICODE_CHARACTER_CLASS: i32 = 256;
    /// All flags.
    pub const ALL: i32 = 511;
}

/// Maximum number of code points of a pattern.
const LENGTH_MAX: usize = 65_536;

/// The error of an invalid pattern, as a `PatternSyntaxException` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syntax {
    /// The description of the error, in Java's words.
    pub description: String,
    /// The index of the error in the pattern, in code points; -1 for none.
    pub index: i64,
}

impl fmt::Display for Syntax {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.description)?;
        if self.index >= 0 { write!(out, " near index {}", self.index) } else { Ok(()) }
    }
}

/// The error of a search that took more than [`STEPS_MAX`] steps, or too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySteps;

/// Maximum number of steps of a search.
pub const STEPS_MAX: u64 = machine::STEPS_MAX;

/// A compiled pattern.
#[derive(Debug)]
pub struct Regex {
    program: Program,
}

/// Buffers of a search, which the next search reuses.
#[derive(Default)]
struct Scratch {
    units: Vec<u16>,
    machine: machine::Scratch,
}

/// Maximum length of a text, in UTF-16 units, whose buffer is kept for the next search.
const UNITS_KEPT: usize = 1 << 16;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Regex {
    /// Compiles a pattern; `flags` is the sum of values of [`flag`]. Fails if Java refuses the pattern, or if it needs
    /// what is not supported here.
    pub fn new(pattern: &str, flags: i32) -> Result<Regex, Syntax> {
        let refused = |description: String| Err(Syntax { description, index: -1 });
        if flags & !flag::ALL != 0 {
            return refused(format!("Unknown flag 0x{flags:x}"));
        }
        if flags & flag::CANON_EQ != 0 {
            return refused("canonical equivalence is not known here".to_owned());
        }
        if pattern.chars().nth(LENGTH_MAX).is_some() {
            return refused(format!("a pattern of more than {LENGTH_MAX} characters"));
        }
        let parsed = parse::parse(pattern, flags)?;
        Ok(Regex { program: program::compile(&parsed)? })
    }

    /// Whether the pattern matches anywhere in the text.
    pub fn find(&self, bytes: &[u8], charset: Charset) -> Result<bool, TooManySteps> {
        self.search(bytes, charset, false)
    }

    /// Whether the pattern matches the whole text.
    pub fn matches(&self, text: &str) -> Result<bool, TooManySteps> {
        self.search(text.as_bytes(), Charset::Utf8, true)
    }

    fn search(&self, bytes: &[u8], charset: Charset, whole: bool) -> Result<bool, TooManySteps> {
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { units, machine } = scratch;
            let found = match charset.narrow(bytes) {
                Some(text) => machine::search(&self.program, &text, whole, machine),
                None => {
                    charset.widen(bytes, units);
                    machine::search(&self.program, &Wide(units), whole, machine)
                }
            };
            if units.capacity() > UNITS_KEPT {
                *units = Vec::new();
            }
            found.map_err(|machine::TooMuch| TooManySteps)
        })
    }
}

#[cfg(test)]
mod tests;
