//! Parses classes in brackets, with union and intersection, and the properties that `\p` names.

use super::{Class, Parser, Result, escape, is};
use crate::set::Runs;
use crate::syntax::Fold;
use crate::{flag, unicode};

/// Characters below 256 that share a case folding with a character above 255. Java keeps these out of its bitmap.
const FOLDED_APART: [u32; 10] = [0xff, 0xb5, 0x49, 0x69, 0x53, 0x73, 0x4b, 0x6b, 0xc5, 0xe5];

impl Parser {
    /// Returns the class of one character, with its other cases if case is ignored.
    pub(super) fn single(&mut self, point: u32) -> Class {
        match self.fold() {
            Fold::Unicode => {
                let folded = unicode::fold(point);
                if unicode::to_upper(point) != folded {
                    let same = unicode::cased().filter(|other| unicode::fold(*other) == folded);
                    return Class::wide(Runs::of(same.map(|same| (same, same)).chain([(folded, folded)])));
                }
            }
            Fold::Ascii if point < 128 && (point as u8).is_ascii_alphabetic() => {
                let (lower, upper) = (
                    u32::from((point as u8).to_ascii_lowercase()),
                    u32::from((point as u8).to_ascii_uppercase()),
                );
                return Class::basic(Runs::of([(lower, lower), (upper, upper)]));
            }
            _ => {}
        }
        Class {
            runs: Runs::range(point, point),
            basic: point < 0x10000 && !(0xd800..0xe000).contains(&point),
        }
    }

    /// Handles a single character of a class: adds it to `bits` and returns `None`, or returns it as a class of its
    /// own.
    fn bit_or_single(&mut self, bits: &mut Vec<u32>, point: u32) -> Option<Class> {
        let fold = self.fold();
        if point >= 256 || fold == Fold::Unicode && FOLDED_APART.contains(&point) {
            return Some(self.single(point));
        }
        if fold != Fold::None && point < 128 {
            bits.extend(
                [(point as u8).to_ascii_lowercase(), (point as u8).to_ascii_uppercase()].map(u32::from),
            );
        } else if fold == Fold::Unicode {
            bits.extend([unicode::to_lower(point), unicode::to_upper(point)]);
        }
        bits.push(point);
        None
    }

    fn range(&self, first: u32, last: u32) -> Class {
        let runs = Runs::range(first, last);
        match self.fold() {
            Fold::None => Class { runs, basic: last < 0xd800 || first > 0xdfff && last < 0x10000 },
            Fold::Ascii => {
                let letters = (0..128u8).filter(|byte| byte.is_ascii_alphabetic()).filter(|byte| {
                    [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()]
                        .iter()
                        .any(|case| (first..=last).contains(&u32::from(*case)))
                });
                let letters: Vec<_> = letters.map(|byte| (byte.into(), byte.into())).collect();
                Class::wide(Runs::of(runs.iter().chain(letters)))
            }
            Fold::Unicode => {
                let within = |point: u32| (first..=last).contains(&point);
                // A character without another case is in the range only if it lies there itself.
                let cased = unicode::cased()
                    .filter(|point| within(unicode::to_upper(*point)) || within(unicode::fold(*point)));
                Class::wide(Runs::of(runs.iter().chain(cased.map(|point| (point, point)))))
            }
        }
    }

    /// Parses a class from `[` on, or from the operand of `&&`. With `whole` it takes the `]`, too.
    pub(super) fn class(&mut self, whole: bool) -> Result<Class> {
        // `before` is the union of the operands so far, without the last one, which is `current`. As in Java,
        // characters below 256 are kept apart, because the result of an `&&` without a right operand depends on that.
        let mut before: Option<Class> = None;
        let mut current: Option<Class> = None;
        let mut bits: Vec<u32> = Vec::new();
        let mut has_bits = false;
        let mut negated = false;
        let mut point = self.next();
        loop {
            match char::from_u32(point).unwrap_or('a') {
                '^' if is(self.at(self.cursor.wrapping_sub(1)), '[') => {
                    point = self.next();
                    negated = true;
                    continue;
                }
                '[' => {
                    let inner = self.deeper(|parser| parser.class(true))?;
                    before = Some(before.map_or_else(|| inner.clone(), |before| before.union(&inner)));
                    current = Some(inner);
                    point = self.peek();
                    continue;
                }
                '&' => {
                    point = self.next();
                    if is(point, '&') {
                        point = self.next();
                        let mut right: Option<Class> = None;
                        while !is(point, ']') && !is(point, '&') {
                            let inner = if is(point, '[') {
                                self.deeper(|parser| parser.class(true))?
                            } else {
                                self.cursor -= 1;
                                self.deeper(|parser| parser.class(false))?
                            };
                            right = Some(right.map_or_else(|| inner.clone(), |right| right.union(&inner)));
                            point = self.peek();
                        }
                        if has_bits {
                            let small = bits_of(&bits);
                            match &mut before {
                                Some(before) => *before = before.union(&small),
                                None => {
                                    before = Some(small.clone());
                                    current = Some(small);
                                }
                            }
                            has_bits = false;
                        }
                        if right.is_some() {
                            current.clone_from(&right);
                        }
                        before = Some(match (before, right) {
                            (None, None) => return Err(self.error("Bad class syntax")),
                            (None, Some(right)) => right,
                            (Some(before), _) => match &current {
                                Some(current) => before.intersection(current),
                                None => before,
                            },
                        });
                        continue;
                    }
                    self.cursor -= 1;
                }
                '\0' if self.at_end() => return Err(self.error("Unclosed character class")),
                ']' if before.is_some() || has_bits => {
                    if whole {
                        self.next();
                    }
                    let mut all = before.unwrap_or_else(|| Class::basic(Runs::none()));
                    if has_bits {
                        all = all.union(&bits_of(&bits));
                    }
                    return Ok(if negated { all.negated() } else { all });
                }
                _ => {}
            }
            match self.member(&mut bits)? {
                None => has_bits = true,
                Some(class) => {
                    before = Some(before.map_or_else(|| class.clone(), |before| before.union(&class)));
                    current = Some(class);
                }
            }
            point = self.peek();
        }
    }

    /// Parses a character, a range or an escape in a class; returns `None` if it was added to `bits`.
    fn member(&mut self, bits: &mut Vec<u32>) -> Result<Option<Class>> {
        let mut point = self.peek();
        if is(point, '\\') {
            let letter = self.next_escaped();
            if is(letter, 'p') || is(letter, 'P') {
                return self.family(is(letter, 'P')).map(Some);
            }
            let range = is(self.at(self.cursor + 1), '-');
            self.cursor -= 1;
            match self.escape_in_class(range)? {
                escape::InClass::Class(class) => return Ok(Some(class)),
                escape::InClass::Point(escaped) => point = escaped,
            }
        } else {
            self.next();
        }
        if is(self.peek(), '-') {
            let end = self.at(self.cursor + 1);
            if !is(end, '[') && !is(end, ']') {
                self.next();
                let mut last = self.peek();
                if is(last, '\\') {
                    last = match self.escape_in_class(true)? {
                        escape::InClass::Point(last) => last,
                        // A class cannot end a range. Java takes it for an end that is before the start.
                        escape::InClass::Class(_) => return Err(self.error("Illegal character range")),
                    };
                } else {
                    self.next();
                }
                if last < point {
                    return Err(self.error("Illegal character range"));
                }
                return Ok(Some(self.range(point, last)));
            }
        }
        Ok(self.bit_or_single(bits, point))
    }

    /// Parses the property of `\p{…}` or `\pL`, from the character after `p` on.
    pub(super) fn family(&mut self, complement: bool) -> Result<Class> {
        let name: String;
        let open = self.next();
        if is(open, '{') {
            self.next();
            let begin = self.cursor;
            loop {
                if self.cursor > self.length {
                    return Err(self.error("Unclosed character family"));
                }
                if is(self.read(), '}') {
                    break;
                }
            }
            if self.cursor > self.length {
                return Err(self.error("Unclosed character family"));
            }
            if begin + 1 >= self.cursor {
                return Err(self.error("Empty character family"));
            }
            name = self.points[begin..self.cursor - 1]
                .iter()
                .filter_map(|point| char::from_u32(*point))
                .collect();
        } else {
            name = char::from_u32(self.at(self.cursor)).map(String::from).unwrap_or_default();
            self.read();
        }
        let class = self.property(&name)?;
        if complement {
            self.wide = true;
            return Ok(class.negated());
        }
        Ok(class)
    }

    fn property(&mut self, name: &str) -> Result<Class> {
        let ignore_case = self.has(flag::CASE_INSENSITIVE);
        let unicode_classes = self.has(flag::UNICODE_CHARACTER_CLASS);
        let key = (ignore_case, format!("{unicode_classes} {name}"));
        if let Some(runs) = self.known.get(&key) {
            return Ok(Class::wide(runs.clone()));
        }
        let runs = if let Some((kind, value)) = name.split_once('=') {
            let kind = kind.to_lowercase();
            match kind.as_str() {
                "sc" | "script" => unicode::script(value),
                "blk" | "block" => unicode::block(value),
                "gc" | "general_category" => unicode::property(value, ignore_case),
                _ => None,
            }
            .ok_or_else(|| {
                self.error(format!("Unknown Unicode property {{name=<{kind}>, value=<{value}>}}"))
            })?
        } else {
            let found = if let Some(block) = name.strip_prefix("In") {
                unicode::block(block)
            } else if let Some(short) = name.strip_prefix("Is") {
                unicode::binary(short, ignore_case)
                    .or_else(|| unicode::property(short, ignore_case))
                    .or_else(|| unicode::script(short))
            } else {
                unicode_classes
                    .then(|| unicode::posix(name, ignore_case))
                    .flatten()
                    .or_else(|| unicode::property(name, ignore_case))
            };
            found.ok_or_else(|| self.error(format!("Unknown character property name {{{name}}}")))?
        };
        self.known.insert(key, runs.clone());
        Ok(Class::wide(runs))
    }
}

fn bits_of(bits: &[u32]) -> Class {
    // Other cases above Latin-1 have no bit.
    Class::basic(Runs::of(bits.iter().filter(|point| **point < 256).map(|point| (*point, *point))))
}
