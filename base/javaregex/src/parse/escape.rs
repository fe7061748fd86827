//! Parses escapes, inside and outside of classes in brackets.

use super::{Class, Parser, Result, is, is_ascii};
use crate::set::Runs;
use crate::syntax::{Node, Place};
use crate::{flag, unicode};

/// An escape outside of classes in brackets.
pub(super) enum Escape {
    /// The escape stands for one character.
    Point(u32),
    /// The escape stands for anything else, such as a class or a position.
    Node(Node),
}

/// An escape within a class.
pub(super) enum InClass {
    Point(u32),
    Class(Class),
}

fn hex(point: u32) -> Option<u32> {
    char::from_u32(point)?.to_digit(16)
}

fn octal(point: u32) -> Option<u32> {
    char::from_u32(point)?.to_digit(8)
}

impl Parser {
    /// Returns the class of `\d` and similar escapes, by its letter; `None` for any other letter.
    fn shorthand(&self, letter: char) -> Option<Class> {
        let unicode = self.has(flag::UNICODE_CHARACTER_CLASS);
        let of = |wide: fn() -> Runs, ascii: fn() -> Runs| {
            if unicode { Class::wide(wide()) } else { Class::basic(ascii()) }
        };
        let class = match letter.to_ascii_lowercase() {
            'd' => of(unicode::digit, unicode::ascii_digit),
            's' => of(unicode::white_space, unicode::ascii_space),
            'w' => of(unicode::word, unicode::ascii_word),
            'h' => Class::basic(unicode::horizontal_space()),
            'v' => Class::basic(unicode::vertical_space()),
            _ => return None,
        };
        Some(if letter.is_ascii_uppercase() { class.negated() } else { class })
    }

    fn unsupported<T>(&self) -> Result<T> {
        Err(self.error("Illegal/unsupported escape sequence"))
    }

    /// Parses the escape at the cursor. If `create` is false, the caller needs the result only if the escape stands for
    /// a character.
    pub(super) fn escape(&mut self, create: bool) -> Result<Escape> {
        let point = self.skip();
        let letter = char::from_u32(point).unwrap_or('\0');
        if let Some(class) = self.shorthand(letter) {
            return Ok(Escape::Node(if create { self.set(class)? } else { Node::Empty }));
        }
        let unix = self.has(flag::UNIX_LINES);
        let node = match letter {
            '1'..='9' => {
                if create {
                    self.back_reference(point - u32::from('0'))
                } else {
                    Node::Empty
                }
            }
            'A' | 'G' => Node::Place(Place::Begin),
            'B' => {
                Node::Place(Place::WordBound { is: false, unicode: self.has(flag::UNICODE_CHARACTER_CLASS) })
            }
            'b' => {
                if is(self.peek(), '{') && is(self.at(self.cursor + 1), 'g') {
                    self.cursor += 2;
                    if is(self.read(), '}') {
                        return Ok(Escape::Node(Node::Place(Place::GraphemeBound)));
                    }
                    return self.unsupported();
                }
                Node::Place(Place::WordBound { is: true, unicode: self.has(flag::UNICODE_CHARACTER_CLASS) })
            }
            'R' => Node::LineEnding,
            'X' => Node::Grapheme,
            'Z' => Node::Place(Place::LastLineEnd { unix }),
            'z' => Node::Place(Place::End),
            'k' => {
                if !is(self.read(), '<') {
                    return Err(self.error("\\k is not followed by '<' for named capturing group"));
                }
                let first = self.read();
                let name = self.group_name(first)?;
                let Some(group) = self.names.get(&name).copied() else {
                    return Err(self.error(format!("named capturing group <{name}> does not exist")));
                };
                self.refers_back = true;
                Node::BackReference(group, self.fold())
            }
            _ => return self.character(point).map(Escape::Point),
        };
        Ok(Escape::Node(node))
    }

    /// Parses the escape at the cursor, which is in a class. In a range `\v` is the vertical tab, as in old versions of
    /// Java.
    pub(super) fn escape_in_class(&mut self, range: bool) -> Result<InClass> {
        let point = self.skip();
        let letter = char::from_u32(point).unwrap_or('\0');
        if letter == 'v' && range {
            return Ok(InClass::Point(0x0b));
        }
        if let Some(class) = self.shorthand(letter) {
            return Ok(InClass::Class(class));
        }
        if is_ascii(point, u8::is_ascii_digit) && letter != '0' || "ABbGRXZzk".contains(letter) {
            return self.unsupported();
        }
        self.character(point).map(InClass::Point)
    }

    fn character(&mut self, point: u32) -> Result<u32> {
        Ok(match char::from_u32(point).unwrap_or('\0') {
            '0' => return self.octal(),
            'a' => 0x07,
            'c' if self.cursor < self.length => self.read() ^ 64,
            'c' => return Err(self.error("Illegal control escape sequence")),
            'e' => 0x1b,
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'u' => return self.utf16(),
            'x' => return self.hexadecimal(),
            'N' => return self.named(),
            'C' | 'E' | 'F' | 'I' | 'J' | 'K' | 'L' | 'M' | 'O' | 'P' | 'Q' | 'T' | 'U' | 'Y' => {
                return self.unsupported();
            }
            'g' | 'i' | 'j' | 'l' | 'm' | 'o' | 'p' | 'q' | 'y' => return self.unsupported(),
            _ => point,
        })
    }

    fn back_reference(&mut self, first: u32) -> Node {
        let mut group = first as usize;
        // Takes more digits as long as they form the number of an existing group.
        while let Some(digit) = super::digit(self.peek()) {
            let longer = group * 10 + digit as usize;
            if self.groups - 1 < longer {
                break;
            }
            group = longer;
            self.read();
        }
        self.refers_back = true;
        Node::BackReference(group, self.fold())
    }

    fn octal(&mut self) -> Result<u32> {
        let Some(first) = octal(self.read()) else { return Err(self.error("Illegal octal escape sequence")) };
        let Some(second) = octal(self.read()) else {
            self.cursor -= 1;
            return Ok(first);
        };
        match octal(self.read()) {
            Some(third) if first <= 3 => Ok(first * 64 + second * 8 + third),
            _ => {
                self.cursor -= 1;
                Ok(first * 8 + second)
            }
        }
    }

    fn hexadecimal(&mut self) -> Result<u32> {
        let first = self.read();
        if let Some(high) = hex(first) {
            if let Some(low) = hex(self.read()) {
                return Ok(high * 16 + low);
            }
        } else if is(first, '{') && hex(self.peek()).is_some() {
            let mut point = 0;
            let mut last = self.read();
            while let Some(digit) = hex(last) {
                point = point * 16 + digit;
                if point > 0x10ffff {
                    return Err(self.error("Hexadecimal codepoint is too big"));
                }
                last = self.read();
            }
            if !is(last, '}') {
                return Err(self.error("Unclosed hexadecimal escape sequence"));
            }
            return Ok(point);
        }
        Err(self.error("Illegal hexadecimal escape sequence"))
    }

    fn utf16_unit(&mut self) -> Result<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            match hex(self.read()) {
                Some(digit) => unit = unit * 16 + digit,
                None => return Err(self.error("Illegal Unicode escape sequence")),
            }
        }
        Ok(unit)
    }

    fn utf16(&mut self) -> Result<u32> {
        let unit = self.utf16_unit()?;
        if (0xd800..0xdc00).contains(&unit) {
            let after = self.cursor;
            if is(self.read(), '\\') && is(self.read(), 'u') {
                let low = self.utf16_unit()?;
                if (0xdc00..0xe000).contains(&low) {
                    return Ok(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
                }
            }
            self.cursor = after;
        }
        Ok(unit)
    }

    /// Refuses `\N{name}`: this crate does not have the names of all characters.
    fn named(&mut self) -> Result<u32> {
        if !is(self.read(), '{') {
            return Err(self.error("Illegal character name escape sequence"));
        }
        let begin = self.cursor;
        while !is(self.read(), '}') {
            if self.at_end() {
                return Err(self.error("Unclosed character name escape sequence"));
            }
        }
        let name: String =
            self.points[begin..self.cursor - 1].iter().filter_map(|point| char::from_u32(*point)).collect();
        Err(self.error(format!("Unknown character name [{name}]")))
    }
}
