//! Examples of what the documentation of `Pattern` states; `tests/java.rs` compares with Java itself.

use super::*;

fn found(pattern: &str, flags: i32, text: &str) -> bool {
    let regex = Regex::new(pattern, flags).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    regex.find(text.as_bytes(), Charset::Utf8).expect("few steps")
}

#[test]
fn a_dollar_matches_before_a_last_line_end() {
    assert!(found("a$", 0, "a\n") && found("a$", 0, "a\r\n") && !found("a$", 0, "a\n\n"));
    assert!(!found("a\\z", 0, "a\n") && found("a\\Z", 0, "a\n"));
    assert!(!found("a$", flag::UNIX_LINES, "a\r") && found("a$", flag::MULTILINE, "a\nb"));
    assert!(!found("^", flag::MULTILINE, ""));
}

#[test]
fn classes_have_unions_and_intersections() {
    assert!(found("^[a-z&&[^b]]$", 0, "c") && !found("^[a-z&&[^b]]$", 0, "b"));
    assert!(found("^[a[0-9]]$", 0, "7") && found("[a-f&&d-z]", 0, "e") && !found("[a-f&&d-z]", 0, "g"));
    assert!(found("\\p{javaLowerCase}\\p{Alpha}\\p{IsGreek}", 0, "aB\u{3b1}"));
}

#[test]
fn possessive_repetitions_do_not_backtrack() {
    assert!(!found("a*+a", 0, "aaa") && !found("(?>a|ab)c", 0, "abc") && found("(?:a|ab)c", 0, "abc"));
}

#[test]
fn groups_are_referred_to_by_number_and_by_name() {
    assert!(found("(.)\\1", 0, "abb") && found("(?<x>ab)\\k<x>", 0, "abab") && !found("(a)?\\1b", 0, "b"));
    assert!(found("(?<=a{1,3})b", 0, "aab") && !found("(?<!a{1,3})b", 0, "ab"));
}

#[test]
fn case_is_that_of_ascii_unless_said_otherwise() {
    assert!(found("k", flag::CASE_INSENSITIVE, "K") && !found("\u{e9}", flag::CASE_INSENSITIVE, "\u{c9}"));
    assert!(found("\u{e9}", flag::CASE_INSENSITIVE | flag::UNICODE_CASE, "\u{c9}"));
    assert!(!found("\\w", 0, "\u{e9}") && found("\\w", flag::UNICODE_CHARACTER_CLASS, "\u{e9}"));
}

#[test]
fn invalid_patterns_are_refused_in_the_words_of_java() {
    let refused = |pattern: &str| Regex::new(pattern, 0).expect_err("no pattern").to_string();
    assert_eq!(refused("("), "Unclosed group near index 1");
    assert_eq!(refused("a**"), "Dangling meta character '*' near index 2");
    assert_eq!(refused("[a"), "Unclosed character class near index 1");
    assert_eq!(refused("a)"), "Unmatched closing ')' near index 0");
    assert!(Regex::new("a", 512).is_err());
}

#[test]
fn no_pattern_takes_too_many_steps_or_nests_too_deep() {
    let many = "a".repeat(30);
    // The patterns can match in exponentially many ways, and the memo avoids trying any twice.
    assert!(!found("(a|a)*b", 0, &many) && !found("(a*)*b", 0, &many) && !found("(?:(?:a|aa)+)+b", 0, &many));
    assert!(!found("(?:a|b|ab)*c", 0, &"ab".repeat(5_000)));
    // With a back reference the machine cannot use a memo, so the search takes too many steps.
    let back = Regex::new("(a|a)*\\1b", 0).expect("a pattern");
    assert_eq!(back.find(many.as_bytes(), Charset::Utf8), Err(TooManySteps));
    assert!(found("(?:a|b)*", 0, &"ab".repeat(200_000)));
    assert!(Regex::new(&"(".repeat(60_000), 0).is_err());
    assert!(Regex::new(&"[".repeat(60_000), 0).is_err());
    assert!(Regex::new(&"(?:a{1000}){1000}".repeat(100), 0).is_ok());
}

#[test]
fn whole_texts_are_matched_to_the_end() {
    let regex = Regex::new("a|ab", 0).expect("a pattern");
    assert!(regex.matches("ab").expect("few steps") && !regex.matches("abc").expect("few steps"));
}
