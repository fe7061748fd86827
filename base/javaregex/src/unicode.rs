//! Properties of code points in Java, by the names that patterns use. A look-up by name returns `None` for an unknown
//! name.

use crate::set::{LAST, Runs};
use crate::tables;

/// The general categories, in the order of `java.lang.Character`'s numbers, by their two letters and number.
const CATEGORIES: [(&str, u8); 30] = [
    ("Cn", 0),
    ("Lu", 1),
    ("Ll", 2),
    ("Lt", 3),
    ("Lm", 4),
    ("Lo", 5),
    ("Mn", 6),
    ("Me", 7),
    ("Mc", 8),
    ("Nd", 9),
    ("Nl", 10),
    ("No", 11),
    ("Zs", 12),
    ("Zl", 13),
    ("Zp", 14),
    ("Cc", 15),
    ("Cf", 16),
    ("Co", 18),
    ("Cs", 19),
    ("Pd", 20),
    ("Ps", 21),
    ("Pe", 22),
    ("Pc", 23),
    ("Po", 24),
    ("Sm", 25),
    ("Sc", 26),
    ("Sk", 27),
    ("So", 28),
    ("Pi", 29),
    ("Pf", 30),
];

const NON_SPACING_MARK: u8 = 6;

fn kind_of(table: &[(u32, u8)], point: u32) -> u8 {
    table[table.partition_point(|(first, _)| *first <= point) - 1].1
}

fn runs_of(table: &[(u32, u8)], is: impl Fn(u8) -> bool) -> Runs {
    let ends = table.iter().skip(1).map(|(next, _)| next - 1).chain([LAST]);
    Runs::of(
        table.iter().zip(ends).filter(|((_, kind), _)| is(*kind)).map(|((first, _), last)| (*first, last)),
    )
}

fn of(table: &[(u32, u32)]) -> Runs {
    Runs::of(table.iter().copied())
}

/// Returns all code points whose category has one of these names, or begins with it: `Lu`, `L`.
fn category(names: &[&str]) -> Runs {
    let wanted = |kind: u8| {
        CATEGORIES
            .iter()
            .any(|(name, number)| *number == kind && names.iter().any(|wanted| name.starts_with(wanted)))
    };
    runs_of(tables::CATEGORY, wanted)
}

/// Whether the code point is a letter or a digit.
pub(super) fn is_letter_or_digit(point: u32) -> bool {
    if point < 128 {
        return (point as u8).is_ascii_alphanumeric();
    }
    matches!(kind_of(tables::CATEGORY, point), 1..=5 | 9)
}

fn is_in(table: &[(u32, u32)], point: u32) -> bool {
    let after = table.partition_point(|(first, _)| *first <= point);
    after > 0 && point <= table[after - 1].1
}

/// Whether `\w` with `UNICODE_CHARACTER_CLASS` matches the code point.
pub(super) fn is_word(point: u32) -> bool {
    is_in(tables::ALPHABETIC, point)
        || matches!(kind_of(tables::CATEGORY, point), 6..=9 | 23)
        || matches!(point, 0x200c | 0x200d)
}

/// Whether the code point is a non-spacing mark.
pub(super) fn is_non_spacing_mark(point: u32) -> bool {
    point >= 128 && kind_of(tables::CATEGORY, point) == NON_SPACING_MARK
}

fn mapped(table: &[(u32, u32, u32, i32)], point: u32) -> u32 {
    let after = table.partition_point(|(first, ..)| *first <= point);
    match table[..after].last() {
        Some((first, last, step, distance)) if point <= *last && (point - first).is_multiple_of(*step) => {
            point.wrapping_add_signed(*distance)
        }
        _ => point,
    }
}

/// Returns the upper case of a code point, as `Character.toUpperCase` does.
pub(super) fn to_upper(point: u32) -> u32 {
    match point {
        0..128 => (point as u8).to_ascii_uppercase().into(),
        _ => mapped(tables::TO_UPPER, point),
    }
}

/// Returns the lower case of a code point, as `Character.toLowerCase` does.
pub(super) fn to_lower(point: u32) -> u32 {
    match point {
        0..128 => (point as u8).to_ascii_lowercase().into(),
        _ => mapped(tables::TO_LOWER, point),
    }
}

/// Returns every code point that has another case, or that is the other case of a code point.
pub(super) fn cased() -> impl Iterator<Item = u32> {
    let of = |table: &'static [(u32, u32, u32, i32)]| {
        table.iter().flat_map(|(first, last, step, _)| (*first..=*last).step_by(*step as usize))
    };
    of(tables::TO_UPPER).chain(of(tables::TO_LOWER))
}

/// Returns the case folding of a code point: the lower case of its upper case.
pub(super) fn fold(point: u32) -> u32 {
    to_lower(to_upper(point))
}

fn ascii(is: fn(u8) -> bool) -> Runs {
    Runs::of((0..128u8).filter(|byte| is(*byte)).map(|byte| (byte.into(), byte.into())))
}

/// Returns what `\d` matches without `UNICODE_CHARACTER_CLASS`.
pub(super) fn ascii_digit() -> Runs {
    Runs::range('0' as u32, '9' as u32)
}

/// Returns what `\w` matches without `UNICODE_CHARACTER_CLASS`.
pub(super) fn ascii_word() -> Runs {
    ascii(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns what `\s` matches without `UNICODE_CHARACTER_CLASS`.
pub(super) fn ascii_space() -> Runs {
    ascii(is_ascii_space)
}

/// Whether `\s` matches this ASCII character; the vertical tab is one.
pub(super) fn is_ascii_space(byte: u8) -> bool {
    matches!(byte, 9..=13 | b' ')
}

/// Returns what `\h` matches.
pub(super) fn horizontal_space() -> Runs {
    let single = [0x09, 0x20, 0xa0, 0x1680, 0x180e, 0x202f, 0x205f, 0x3000];
    Runs::of(single.into_iter().map(|point| (point, point)).chain([(0x2000, 0x200a)]))
}

/// Returns what `\v` matches.
pub(super) fn vertical_space() -> Runs {
    Runs::of([(0x0a, 0x0d), (0x85, 0x85), (0x2028, 0x2029)])
}

/// Returns the code points that end a line; with `UNIX_LINES`, only `\n`.
pub(super) fn line_ends(unix: bool) -> Runs {
    match unix {
        true => Runs::range(0x0a, 0x0a),
        false => Runs::of([(0x0a, 0x0a), (0x0d, 0x0d), (0x85, 0x85), (0x2028, 0x2029)]),
    }
}

/// Returns what `\d` matches with `UNICODE_CHARACTER_CLASS`.
pub(super) fn digit() -> Runs {
    category(&["Nd"])
}

/// Returns what `\s` matches with `UNICODE_CHARACTER_CLASS`.
pub(super) fn white_space() -> Runs {
    category(&["Z"]).union(&Runs::of([(0x09, 0x0d), (0x85, 0x85)]))
}

/// Returns what `\w` matches with `UNICODE_CHARACTER_CLASS`.
pub(super) fn word() -> Runs {
    of(tables::ALPHABETIC).union(&category(&["M", "Nd", "Pc"])).union(&Runs::range(0x200c, 0x200d))
}

fn any_case() -> Runs {
    of(tables::LOWERCASE).union(&of(tables::UPPERCASE)).union(&category(&["Lt"]))
}

fn graph() -> Runs {
    category(&["Z", "Cc", "Cs", "Cn"]).complement()
}

fn blank() -> Runs {
    category(&["Zs"]).union(&Runs::range(9, 9))
}

fn hex_digit() -> Runs {
    let wide = [(0xff10, 0xff19), (0xff21, 0xff26), (0xff41, 0xff46)];
    digit().union(&ascii(|byte| byte.is_ascii_hexdigit())).union(&Runs::of(wide))
}

/// Returns a POSIX class with Unicode's meaning, by its name in any case.
pub(super) fn posix(name: &str, ignore_case: bool) -> Option<Runs> {
    Some(match name.to_uppercase().as_str() {
        "ALPHA" => of(tables::ALPHABETIC),
        "LOWER" | "UPPER" if ignore_case => any_case(),
        "LOWER" => of(tables::LOWERCASE),
        "UPPER" => of(tables::UPPERCASE),
        "SPACE" => white_space(),
        "PUNCT" => category(&["P"]),
        "XDIGIT" => hex_digit(),
        "ALNUM" => of(tables::ALPHABETIC).union(&digit()),
        "CNTRL" => category(&["Cc"]),
        "DIGIT" => digit(),
        "BLANK" => blank(),
        "GRAPH" => graph(),
        "PRINT" => graph().union(&blank()).intersection(&category(&["Cc"]).complement()),
        _ => return None,
    })
}

/// Returns the code points with a binary property, by the name after `Is` in any case; POSIX names are among them.
pub(super) fn binary(name: &str, ignore_case: bool) -> Option<Runs> {
    Some(match name.to_uppercase().as_str() {
        "ALPHABETIC" => of(tables::ALPHABETIC),
        "ASSIGNED" => category(&["Cn"]).complement(),
        "CONTROL" => category(&["Cc"]),
        "HEXDIGIT" | "HEX_DIGIT" => hex_digit(),
        "IDEOGRAPHIC" => of(tables::IDEOGRAPHIC),
        "JOINCONTROL" | "JOIN_CONTROL" => Runs::range(0x200c, 0x200d),
        "LETTER" => category(&["L"]),
        "LOWERCASE" | "UPPERCASE" | "TITLECASE" if ignore_case => any_case(),
        "LOWERCASE" => of(tables::LOWERCASE),
        "UPPERCASE" => of(tables::UPPERCASE),
        "TITLECASE" => category(&["Lt"]),
        "NONCHARACTERCODEPOINT" | "NONCHARACTER_CODE_POINT" => Runs::of(
            (0..=0x10).map(|plane| (plane << 16 | 0xfffe, plane << 16 | 0xffff)).chain([(0xfdd0, 0xfdef)]),
        ),
        "PUNCTUATION" => category(&["P"]),
        "WHITESPACE" | "WHITE_SPACE" => white_space(),
        "WORD" => word(),
        _ => return posix(name, ignore_case),
    })
}

/// Returns a general category, an ASCII class or the class of a method of `java.lang.Character`, by its exact name.
pub(super) fn property(name: &str, ignore_case: bool) -> Option<Runs> {
    Some(match name {
        "Lu" | "Ll" | "Lt" if ignore_case => category(&["Lu", "Ll", "Lt"]),
        "L" | "M" | "N" | "Z" | "P" | "S" => category(&[name]),
        "C" => category(&["C"]),
        "LC" => category(&["Lu", "Ll", "Lt"]),
        "LD" => category(&["L", "Nd"]),
        "L1" => Runs::range(0, 0xff),
        "all" => Runs::all(),
        "ASCII" => Runs::range(0, 0x7f),
        "Lower" | "Upper" if ignore_case => ascii(|byte| byte.is_ascii_alphabetic()),
        "Lower" => ascii(|byte| byte.is_ascii_lowercase()),
        "Upper" => ascii(|byte| byte.is_ascii_uppercase()),
        "Alnum" => ascii(|byte| byte.is_ascii_alphanumeric()),
        "Alpha" => ascii(|byte| byte.is_ascii_alphabetic()),
        "Blank" => ascii(|byte| matches!(byte, b' ' | b'\t')),
        "Cntrl" => ascii(|byte| byte.is_ascii_control()),
        "Digit" => ascii_digit(),
        "Graph" => ascii(|byte| byte.is_ascii_graphic()),
        "Print" => Runs::range(0x20, 0x7e),
        "Punct" => ascii(|byte| byte.is_ascii_punctuation()),
        "Space" => ascii_space(),
        "XDigit" => ascii(|byte| byte.is_ascii_hexdigit()),
        "javaLowerCase" | "javaUpperCase" | "javaTitleCase" if ignore_case => any_case(),
        "javaLowerCase" => of(tables::LOWERCASE),
        "javaUpperCase" => of(tables::UPPERCASE),
        "javaTitleCase" => category(&["Lt"]),
        "javaAlphabetic" => of(tables::ALPHABETIC),
        "javaIdeographic" => of(tables::IDEOGRAPHIC),
        "javaDigit" => digit(),
        "javaDefined" => category(&["Cn"]).complement(),
        "javaLetter" => category(&["L"]),
        "javaLetterOrDigit" => category(&["L", "Nd"]),
        "javaJavaIdentifierStart" => category(&["L", "Nl", "Sc", "Pc"]),
        "javaJavaIdentifierPart" => {
            category(&["L", "Nl", "Sc", "Pc", "Nd", "Mn", "Mc"]).union(&identifier_ignorable())
        }
        "javaUnicodeIdentifierStart" => of(tables::IDENTIFIER_START),
        "javaUnicodeIdentifierPart" => of(tables::IDENTIFIER_PART),
        "javaIdentifierIgnorable" => identifier_ignorable(),
        "javaSpaceChar" => category(&["Z"]),
        "javaWhitespace" => {
            let breaking = Runs::of([(0xa0, 0xa0), (0x2007, 0x2007), (0x202f, 0x202f)]).complement();
            category(&["Z"]).intersection(&breaking).union(&Runs::of([(0x09, 0x0d), (0x1c, 0x1f)]))
        }
        "javaISOControl" => Runs::of([(0, 0x1f), (0x7f, 0x9f)]),
        "javaMirrored" => of(tables::MIRRORED),
        _ if name.len() == 2 && CATEGORIES.iter().any(|(known, _)| *known == name) => category(&[name]),
        _ => return None,
    })
}

fn identifier_ignorable() -> Runs {
    category(&["Cf"]).union(&Runs::of([(0, 8), (0x0e, 0x1b), (0x7f, 0x9f)]))
}

/// Returns the code points of a script, by its name or its code of four letters, in any case.
pub(super) fn script(name: &str) -> Option<Runs> {
    let name = name.to_uppercase();
    let (_, number) = tables::SCRIPT_NAMES.iter().find(|(known, _)| *known == name)?;
    Some(runs_of(tables::SCRIPT, |kind| kind == *number))
}

/// Returns the code points of a block, by one of its names, in any case.
pub(super) fn block(name: &str) -> Option<Runs> {
    let name = name.to_uppercase();
    let (first, last, _) =
        tables::BLOCKS.iter().find(|(.., names)| names.split('|').any(|known| known == name))?;
    Some(Runs::range(*first, *last))
}

/// The classes of code points that decide where grapheme clusters end (Unicode Standard Annex 29).
pub(super) mod grapheme {
    use super::{kind_of, tables};

    const CR: u8 = 1;
    const LF: u8 = 2;
    const CONTROL: u8 = 3;
    const EXTEND: u8 = 4;
    const ZERO_WIDTH_JOINER: u8 = 5;
    const REGIONAL_INDICATOR: u8 = 6;
    const PREPEND: u8 = 7;
    const SPACING_MARK: u8 = 8;
    const L: u8 = 9;
    const V: u8 = 10;
    const T: u8 = 11;
    const LV: u8 = 12;
    const LVT: u8 = 13;

    fn class(point: u32) -> u8 {
        match point {
            0xac00..=0xd7a3 if (point - 0xac00).is_multiple_of(28) => LV,
            _ => kind_of(tables::GRAPHEME, point),
        }
    }

    fn is_pictograph(point: u32) -> bool {
        super::is_in(tables::PICTOGRAPHS, point)
    }

    /// Whether the classes alone decide that a cluster ends between two code points.
    fn parts(left: u8, right: u8) -> bool {
        match (left, right) {
            (CR, LF) => false,
            (CR | LF | CONTROL, _) | (_, CR | LF | CONTROL) => true,
            (_, EXTEND | ZERO_WIDTH_JOINER | SPACING_MARK) | (PREPEND, _) => false,
            (L, L | V | LV | LVT) | (LV | V, V | T) | (LVT | T, T) => false,
            _ => true,
        }
    }

    /// The state of the algorithm that walks over the code points of one cluster.
    pub(in super::super) struct Walk {
        class: u8,
        indicators: usize,
        pictograph: bool,
    }

    impl Walk {
        pub(in super::super) fn from(point: u32) -> Walk {
            let class = class(point);
            let indicators = usize::from(class == REGIONAL_INDICATOR);
            Walk { class, indicators, pictograph: is_pictograph(point) }
        }

        /// Whether the next code point belongs to the same cluster.
        pub(in super::super) fn takes(&mut self, next: u32) -> bool {
            let class = class(next);
            let joined = self.pictograph && self.class == ZERO_WIDTH_JOINER && is_pictograph(next);
            let flag =
                self.indicators % 2 == 1 && (self.class, class) == (REGIONAL_INDICATOR, REGIONAL_INDICATOR);
            if !joined && !flag && parts(self.class, class) {
                return false;
            }
            self.indicators += usize::from(class == REGIONAL_INDICATOR);
            self.class = class;
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_those_of_java() {
        for (lower, upper) in
            [('a', 'A'), ('\u{e9}', '\u{c9}'), ('\u{ff}', '\u{178}'), ('\u{10428}', '\u{10400}')]
        {
            assert_eq!(
                (to_upper(lower as u32), to_lower(upper as u32)),
                (upper as u32, lower as u32),
                "{lower}"
            );
        }
        // The Kelvin sign has a lower case only, the long s an upper case only, and the sharp s neither.
        assert_eq!((to_lower(0x212a), to_upper('k' as u32)), ('k' as u32, 'K' as u32));
        assert_eq!(to_upper(0x17f), 'S' as u32);
        assert_eq!(to_upper(0xdf), 0xdf);
    }

    #[test]
    fn properties_are_found_by_every_kind_of_name() {
        let has = |runs: Option<Runs>, point: char| runs.expect("it is known").contains(point as u32);
        assert!(has(property("Lu", false), 'A') && !has(property("Lu", false), 'a'));
        assert!(has(property("Lu", true), 'a'));
        assert!(has(script("Latn"), 'a') && has(script("greek"), '\u{3b1}'));
        assert!(
            has(block("Basic Latin"), 'a') && has(block("BASICLATIN"), 'a') && has(block("basic_latin"), 'a')
        );
        assert!(has(binary("alphabetic", false), '\u{3b1}') && has(binary("white_space", false), '\u{85}'));
        assert!(has(property("javaMirrored", false), '('));
        assert_eq!(property("lu", false), None);
        assert_eq!(script("Klingon"), None);
        assert_eq!(block("Nowhere"), None);
    }
}
