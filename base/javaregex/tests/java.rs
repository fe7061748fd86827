//! Compares results with those of `java.util.regex`, for random patterns and texts.
//!
//! `tests/java.answers` was written by `proof/java/regex/src/Answers.java`. The environment variable
//! `JAVA_REGEX_ANSWERS` can name another file of answers; `cargo xtask regex` makes Java write one and sets the
//! variable.

use std::fmt::Write;

use javaregex::{Charset, Regex, Syntax};

const RECORDED: &str = include_str!("java.answers");
/// Maximum number of differences that a failing test shows.
const SHOWN_MAX: usize = 40;

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn text(hex: &str) -> String {
    String::from_utf8(bytes(hex)).expect("UTF-8")
}

#[derive(Default)]
struct Tally {
    patterns: usize,
    refused: usize,
    pairs: usize,
    skipped: usize,
    different: usize,
    shown: String,
}

impl Tally {
    fn differs(&mut self, what: impl FnOnce() -> String) {
        self.different += 1;
        if self.different <= SHOWN_MAX {
            writeln!(self.shown, "{}", what()).expect("a string takes all");
        }
    }

    fn line(&mut self, line: &str) {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("flags, charset and pattern");
        let (flags, charset, pattern) = (word(), word(), text(word()));
        let flags: i32 = flags.parse().expect("flags");
        let known = Charset::by_name(charset).unwrap_or_else(|| panic!("no charset {charset}"));
        self.patterns += 1;
        let ours = Regex::new(&pattern, flags);
        let mut answers = words.peekable();
        if answers.next_if_eq(&"?").is_some() {
            // Java itself fails on this pattern.
            self.skipped += 1;
            return;
        }
        if answers.next_if_eq(&"!").is_some() {
            self.refused += 1;
            let index = answers.next().expect("an index").parse().expect("a number");
            let theirs = Syntax { description: text(answers.next().expect("a description")), index };
            if ours.as_ref().err() != Some(&theirs) {
                self.differs(|| {
                    format!("{pattern:?} {flags}: {theirs}; ours: {:?}", ours.map(|_| "a pattern"))
                });
            }
            return;
        }
        let regex = match ours {
            Ok(regex) => regex,
            Err(error) => return self.differs(|| format!("{pattern:?} {flags}: a pattern; ours: {error}")),
        };
        for answer in answers {
            let (value, found) = answer.split_once(':').expect("a text and an answer");
            let (value, found) = (bytes(value), found == "1");
            self.pairs += 1;
            let ours = regex.find(&value, known);
            if ours != Ok(found) {
                self.differs(|| {
                    format!(
                        "{pattern:?} {flags} {charset} on {}: {found}; ours: {ours:?}",
                        value.escape_ascii()
                    )
                });
            }
        }
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "how many were asked is what a longer run is for")]
fn java_finds_the_same() {
    let answers = match std::env::var("JAVA_REGEX_ANSWERS") {
        #[expect(clippy::disallowed_methods, reason = "a file of answers is the point")]
        Ok(path) => std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")),
        Err(_) => RECORDED.to_owned(),
    };
    let mut tally = Tally::default();
    answers.lines().for_each(|line| tally.line(line));
    let Tally { patterns, refused, pairs, skipped, different, shown } = tally;
    println!(
        "{patterns} patterns ({refused} refused, {skipped} too much for Java), {pairs} texts looked through, {different} differ"
    );
    assert!(patterns > 0 && pairs > patterns && refused > 0, "{patterns} patterns, {pairs} texts");
    assert!(different == 0, "{different} differ, the first of them:\n{shown}");
}
