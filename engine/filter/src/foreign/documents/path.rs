//! Paths of OJAI, by which HDocDB names values: `a.b[3]."with.dot"`, or `a[].b` for every element of `a`.

use super::value::Fault;

/// Maximum number of steps of a path.
const STEPS_MAX: usize = 100;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A member of an object.
    Name(String),
    /// An element of an array; every element if there is no index.
    Index(Option<u32>),
}

/// A path; its first step is a name. A document itself has the empty name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(pub(super) Vec<Step>);

fn invalid(text: &str, why: &str) -> Fault {
    Fault::Other(format!("{text:?} is no path: {why}"))
}

impl Path {
    /// Parses a path by OJAI's grammar. Text after a complete path is ignored.
    pub(super) fn parse(text: &str) -> Result<Path, Fault> {
        if text.is_empty() {
            return Ok(Path(vec![Step::Name(String::new())]));
        }
        let mut left = text;
        let mut steps = vec![name(&mut left).map_err(|why| invalid(text, &why))?];
        loop {
            skip_space(&mut left);
            if let Some(rest) = left.strip_prefix('.') {
                left = rest;
                steps.push(name(&mut left).map_err(|why| invalid(text, &why))?);
            } else if let Some(rest) = left.strip_prefix('[') {
                left = rest;
                steps.push(index(&mut left).map_err(|why| invalid(text, &why))?);
            } else {
                return Ok(Path(steps));
            }
            if steps.len() > STEPS_MAX {
                return Err(invalid(text, &format!("it has more than {STEPS_MAX} steps")));
            }
        }
    }
}

/// Skips one space between tokens. Further spaces belong to a name.
fn skip_space(left: &mut &str) {
    if let Some(rest) = left.strip_prefix(' ')
        && !rest.starts_with(is_plain)
        && !rest.starts_with('\\')
    {
        *left = rest;
    }
}

fn is_plain(letter: char) -> bool {
    !matches!(letter, '`' | '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' | '.' | '[' | ']')
}

fn is_plain_in_quotes(letter: char) -> bool {
    is_plain(letter) || matches!(letter, '.' | '[' | ']')
}

fn name(left: &mut &str) -> Result<Step, String> {
    skip_space(left);
    if let Some(quote @ ('"' | '`')) = left.chars().next() {
        *left = &left[1..];
        let name = letters(left, is_plain_in_quotes)?;
        *left = left.strip_prefix(quote).ok_or("a quoted name does not end")?;
        return Ok(Step::Name(name));
    }
    let name = letters(left, is_plain)?;
    if name.is_empty() { Err("a name was expected".to_owned()) } else { Ok(Step::Name(name)) }
}

fn index(left: &mut &str) -> Result<Step, String> {
    skip_space(left);
    let digits = left.len() - left.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (number, rest) = left.split_at(digits);
    *left = rest;
    skip_space(left);
    *left = left.strip_prefix(']').ok_or("an index and ] were expected")?;
    if number.is_empty() {
        return Ok(Step::Index(None));
    }
    let number = number.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok());
    number.map(|number| Step::Index(Some(number))).ok_or_else(|| "an index is too large".to_owned())
}

/// Reads letters, plain or escaped by a backslash, up to the first other one. Fails for an invalid escape.
fn letters(left: &mut &str, is_plain: fn(char) -> bool) -> Result<String, String> {
    let mut units: Vec<u16> = Vec::new();
    while let Some(letter) = left.chars().next() {
        if letter != '\\' {
            if !is_plain(letter) {
                break;
            }
            units.extend(letter.encode_utf16(&mut [0; 2]).iter());
            *left = &left[letter.len_utf8()..];
            continue;
        }
        let escaped = left[1..].chars().next().ok_or("a backslash is the last letter")?;
        let mut length = 2;
        units.push(match escaped {
            '`' | '"' | '\\' | '.' | '[' | ']' | '/' => escaped as u16,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'u' => {
                length = 6;
                let hex = left.get(2..6).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
                let unit = hex.and_then(|hex| u16::from_str_radix(hex, 16).ok());
                unit.ok_or("\\u needs four hexadecimal digits")?
            }
            other => return Err(format!("\\{other} stands for nothing")),
        });
        *left = &left[length..];
    }
    Ok(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<Step> {
        Path::parse(text).unwrap_or_else(|_| panic!("{text}")).0
    }

    fn named(name: &str) -> Step {
        Step::Name(name.to_owned())
    }

    #[test]
    fn paths_are_names_and_indexes() {
        assert_eq!(
            steps("a.b[3][].c"),
            [named("a"), named("b"), Step::Index(Some(3)), Step::Index(None), named("c")]
        );
        assert_eq!(steps(""), [named("")]);
        assert_eq!(steps("\"a.b\".`c[`.12"), [named("a.b"), named("c["), named("12")]);
        assert_eq!(steps("a\\.b.\\u0041\\n"), [named("a.b"), named("A\n")]);
        assert_eq!(steps("two words.x"), [named("two words"), named("x")]);
        assert_eq!(steps("a]rest"), [named("a")], "bytes after the path are not read");
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [".a", "a.", "a[", "a[x]", "a[99999999999]", "\"a", "\\q", "[0]", "\\u12"] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
        assert!(Path::parse(&"a.".repeat(200)).is_err());
    }
}
