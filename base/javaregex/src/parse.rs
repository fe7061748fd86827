//! Parses patterns in the language of `java.util.regex.Pattern`, and reports what is wrong with invalid ones.
//!
//! The parser reads code point by code point, from left to right, with a look-ahead of one. In mode `(?x)` it ignores
//! white space and `#` comments wherever Java does, which includes escapes and repetitions. Two zeros after the
//! pattern mark its end; a zero within the pattern is an ordinary character.

mod class;
mod escape;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::set::{Runs, Set};
use crate::syntax::{ENDLESS, Extent, Fold, Form, Kind, Node, Place, Side};
use crate::{Syntax, flag, unicode};

/// Maximum nesting depth of groups and classes.
const DEPTH_MAX: usize = 250;
/// Maximum number of runs of code points in all sets of one pattern.
const RUNS_MAX: usize = 1_000_000;

type Result<T> = std::result::Result<T, Syntax>;

/// A parsed pattern.
pub(super) struct Parsed {
    pub(super) node: Node,
    /// Number of capturing groups, including the whole match as group 0.
    pub(super) groups: usize,
    /// Whether the pattern has a back reference.
    pub(super) refers_back: bool,
    /// Whether a match may begin between the two halves of a surrogate pair.
    pub(super) splits_pairs: bool,
}

pub(super) struct Parser {
    points: Vec<u32>,
    length: usize,
    cursor: usize,
    flags: i32,
    groups: usize,
    names: HashMap<String, usize>,
    depth: usize,
    refers_back: bool,
    wide: bool,
    runs: usize,
    /// Sets that were built already, by flag and name: a pattern may name the same set many times.
    known: BTreeMap<(bool, String), Runs>,
}

/// A set of characters. Also records whether Java treats it as a set of characters in the basic multilingual plane.
#[derive(Clone, Debug)]
struct Class {
    runs: Runs,
    basic: bool,
}

impl Class {
    fn basic(runs: Runs) -> Class {
        Class { runs, basic: true }
    }

    fn wide(runs: Runs) -> Class {
        Class { runs, basic: false }
    }

    fn negated(&self) -> Class {
        Class::wide(self.runs.complement())
    }

    fn union(&self, other: &Class) -> Class {
        Class { runs: self.runs.union(&other.runs), basic: self.basic && other.basic }
    }

    fn intersection(&self, other: &Class) -> Class {
        Class { runs: self.runs.intersection(&other.runs), basic: self.basic && other.basic }
    }
}

fn is(point: u32, letter: char) -> bool {
    point == letter as u32
}

fn is_ascii(point: u32, class: fn(&u8) -> bool) -> bool {
    point < 128 && class(&(point as u8))
}

fn digit(point: u32) -> Option<u32> {
    char::from_u32(point)?.to_digit(10)
}

/// Parses a pattern. `flags` are Java's; the caller has refused unknown flags.
pub(super) fn parse(pattern: &str, flags: i32) -> Result<Parsed> {
    let points: Vec<u32> = pattern.chars().map(u32::from).collect();
    let mut parser = Parser {
        length: points.len(),
        points,
        cursor: 0,
        flags,
        groups: 1,
        names: HashMap::new(),
        depth: 0,
        refers_back: false,
        wide: false,
        runs: 0,
        known: BTreeMap::new(),
    };
    if parser.has(flag::UNICODE_CHARACTER_CLASS) {
        parser.flags |= flag::UNICODE_CASE;
    }
    let node = if parser.has(flag::LITERAL) {
        let points = parser.points.clone();
        parser.literal(points)
    } else {
        parser.unquote();
        parser.points.extend([0, 0]);
        let node = parser.branches()?;
        if parser.cursor != parser.length {
            return Err(match parser.peek() {
                point if is(point, ')') => parser.error("Unmatched closing ')'"),
                _ => parser.error("Unexpected internal error"),
            });
        }
        node
    };
    Ok(Parsed { node, groups: parser.groups, refers_back: parser.refers_back, splits_pairs: !parser.wide })
}

impl Parser {
    fn has(&self, flag: i32) -> bool {
        self.flags & flag != 0
    }

    fn fold(&self) -> Fold {
        match (self.has(flag::CASE_INSENSITIVE), self.has(flag::UNICODE_CASE)) {
            (false, _) => Fold::None,
            (true, false) => Fold::Ascii,
            (true, true) => Fold::Unicode,
        }
    }

    fn error(&self, description: impl Into<String>) -> Syntax {
        Syntax { description: description.into(), index: self.cursor as i64 - 1 }
    }

    fn at(&self, index: usize) -> u32 {
        self.points.get(index).copied().unwrap_or(0)
    }

    /// Escapes all but letters and digits between `\Q` and `\E`, or between `\Q` and the end.
    fn unquote(&mut self) {
        let (points, length) = (std::mem::take(&mut self.points), self.length);
        let at = |index: usize| points.get(index).copied().unwrap_or(0);
        let mut out = Vec::with_capacity(length + 2);
        let (mut index, mut quoted, mut begun) = (0, false, false);
        let mut any = false;
        while index < length {
            let point = at(index);
            index += 1;
            if is(point, '\\') && !quoted {
                if is(at(index), 'Q') && index < length {
                    (index, quoted, begun, any) = (index + 1, true, true, true);
                    continue;
                }
                out.push(point);
                if index < length {
                    out.push(at(index));
                    index += 1;
                }
            } else if is(point, '\\') {
                if is(at(index), 'E') {
                    (index, quoted) = (index + 1, false);
                } else {
                    out.extend(['\\', '\\'].map(u32::from));
                }
            } else if point >= 128 || is_ascii(point, u8::is_ascii_alphabetic) {
                out.push(point);
            } else if is_ascii(point, u8::is_ascii_digit) {
                // Directly after an escape, such as an octal number, the digit would become a part of it.
                if begun && any {
                    out.extend(['\\', 'x', '3'].map(u32::from));
                }
                out.push(point);
            } else {
                if quoted {
                    out.push('\\' as u32);
                }
                out.push(point);
            }
            begun = false;
        }
        self.length = out.len();
        self.points = out;
    }

    fn is_line_end(&self, point: u32) -> bool {
        is(point, '\n') || !self.has(flag::UNIX_LINES) && matches!(point, 0x0d | 0x85 | 0x2028 | 0x2029)
    }

    fn is_blank(point: u32) -> bool {
        point < 128 && unicode::is_ascii_space(point as u8)
    }

    /// In mode `(?x)`: moves the cursor to the next code point that is not a blank or in a comment, and returns it.
    fn peek_past_blanks(&mut self) -> u32 {
        let mut point = self.at(self.cursor);
        while Parser::is_blank(point) || is(point, '#') {
            if is(point, '#') {
                self.cursor += 1;
                point = self.at(self.cursor);
                while point != 0 && !self.is_line_end(point) {
                    self.cursor += 1;
                    point = self.at(self.cursor);
                }
            } else {
                self.cursor += 1;
                point = self.at(self.cursor);
            }
        }
        point
    }

    /// As [`peek_past_blanks`](Self::peek_past_blanks), beginning with a code point that was already taken.
    fn take_past_blanks(&mut self, mut point: u32) -> u32 {
        while Parser::is_blank(point) || is(point, '#') {
            if is(point, '#') {
                point = self.take();
                while point != 0 && !self.is_line_end(point) {
                    point = self.take();
                }
            } else {
                point = self.take();
            }
        }
        point
    }

    fn take(&mut self) -> u32 {
        let point = self.at(self.cursor);
        self.cursor += 1;
        point
    }

    fn peek(&mut self) -> u32 {
        if self.has(flag::COMMENTS) { self.peek_past_blanks() } else { self.at(self.cursor) }
    }

    fn read(&mut self) -> u32 {
        let point = self.take();
        if self.has(flag::COMMENTS) { self.take_past_blanks(point) } else { point }
    }

    fn next(&mut self) -> u32 {
        self.cursor += 1;
        self.peek()
    }

    /// Returns the code point after the backslash of an escape, even if it is a blank.
    fn next_escaped(&mut self) -> u32 {
        self.cursor += 1;
        self.at(self.cursor)
    }

    /// Takes the code point after the one at the cursor.
    fn skip(&mut self) -> u32 {
        let point = self.at(self.cursor + 1);
        self.cursor += 2;
        point
    }

    fn at_end(&self) -> bool {
        self.cursor >= self.length
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Parser) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_MAX {
            return Err(self.error(format!("more than {DEPTH_MAX} groups or classes within each other")));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Parses sequences separated by `|`.
    fn branches(&mut self) -> Result<Node> {
        let mut nodes = vec![self.sequence()?];
        while is(self.peek(), '|') {
            self.next();
            nodes.push(self.sequence()?);
        }
        Ok(if nodes.len() == 1 { nodes.swap_remove(0) } else { Node::Branch(nodes) })
    }

    fn sequence(&mut self) -> Result<Node> {
        let mut nodes = Vec::new();
        loop {
            let point = self.peek();
            let node = match char::from_u32(point).unwrap_or('a') {
                '(' => {
                    nodes.extend(self.deeper(Parser::group)?);
                    continue;
                }
                '[' => {
                    let class = self.deeper(|parser| parser.class(true))?;
                    self.set(class)?
                }
                '\\' => self.escaped_or_atom()?,
                '^' => {
                    self.next();
                    Node::Place(match self.has(flag::MULTILINE) {
                        true => Place::LineBegin { unix: self.has(flag::UNIX_LINES) },
                        false => Place::Begin,
                    })
                }
                '$' => {
                    self.next();
                    let unix = self.has(flag::UNIX_LINES);
                    Node::Place(match self.has(flag::MULTILINE) {
                        true => Place::LineEnd { unix },
                        false => Place::LastLineEnd { unix },
                    })
                }
                '.' => {
                    self.next();
                    let runs = match self.has(flag::DOTALL) {
                        true => Runs::all(),
                        false => unicode::line_ends(self.has(flag::UNIX_LINES)).complement(),
                    };
                    // As in Java, a dot does not show that the pattern may match surrogate pairs.
                    self.set(Class::basic(runs))?
                }
                '|' | ')' => break,
                '?' | '*' | '+' => {
                    self.next();
                    let letter = char::from_u32(point).unwrap_or_default();
                    return Err(self.error(format!("Dangling meta character '{letter}'")));
                }
                '\0' if self.at_end() => break,
                _ => self.atom()?,
            };
            nodes.push(self.repeated(node)?);
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.swap_remove(0),
            _ => Node::Sequence(nodes),
        })
    }

    fn escaped_or_atom(&mut self) -> Result<Node> {
        let letter = self.next_escaped();
        if is(letter, 'p') || is(letter, 'P') {
            let class = self.family(is(letter, 'P'))?;
            return self.set(class);
        }
        self.cursor -= 1;
        self.atom()
    }

    /// Parses a run of characters. If a repetition follows, the run ends before its last character, to which alone the
    /// repetition applies.
    fn atom(&mut self) -> Result<Node> {
        let mut points: Vec<u32> = Vec::new();
        let mut before = None;
        let mut point = self.peek();
        loop {
            match char::from_u32(point).unwrap_or('a') {
                '*' | '+' | '?' | '{' => {
                    if let (Some(before), true) = (before, points.len() > 1) {
                        self.cursor = before;
                        points.pop();
                    }
                    break;
                }
                '$' | '.' | '^' | '(' | '[' | '|' | ')' => break,
                '\\' => {
                    let letter = self.next_escaped();
                    if is(letter, 'p') || is(letter, 'P') {
                        if !points.is_empty() {
                            self.cursor -= 1;
                            break;
                        }
                        let class = self.family(is(letter, 'P'))?;
                        return self.set(class);
                    }
                    self.cursor -= 1;
                    let begin = self.cursor;
                    before = Some(begin);
                    match self.escape(points.is_empty())? {
                        escape::Escape::Point(escaped) => {
                            points.push(escaped);
                            point = self.peek();
                            continue;
                        }
                        escape::Escape::Node(node) if points.is_empty() => return Ok(node),
                        escape::Escape::Node(_) => self.cursor = begin,
                    }
                    break;
                }
                '\0' if self.at_end() => break,
                _ => {
                    before = Some(self.cursor);
                    points.push(point);
                    point = self.next();
                }
            }
        }
        match points[..] {
            [one] => {
                let class = self.single(one);
                self.set(class)
            }
            _ => Ok(self.literal(points)),
        }
    }

    fn literal(&mut self, mut points: Vec<u32>) -> Node {
        let fold = self.fold();
        self.wide |= points.iter().any(|point| *point > 0xffff);
        for point in &mut points {
            *point = match fold {
                Fold::None => *point,
                Fold::Ascii if *point < 128 => (*point as u8).to_ascii_lowercase().into(),
                Fold::Ascii => *point,
                Fold::Unicode => unicode::fold(*point),
            };
        }
        if points.is_empty() { Node::Empty } else { Node::Literal(points, fold) }
    }

    fn set(&mut self, class: Class) -> Result<Node> {
        self.wide |= !class.basic;
        self.runs += class.runs.count();
        if self.runs > RUNS_MAX {
            return Err(self.error(format!("classes of more than {RUNS_MAX} runs of characters")));
        }
        Ok(Node::Set(Arc::new(Set::new(class.runs))))
    }

    /// Parses a group of any kind and the repetition that follows it; returns `None` for a group that only changes
    /// flags.
    fn group(&mut self) -> Result<Option<Node>> {
        let flags = self.flags;
        let mut point = self.next();
        let mut look = None;
        let mut number = None;
        let mut atomic = false;
        let mut grouped = true;
        let begin;
        if is(point, '?') {
            point = self.skip();
            match char::from_u32(point).unwrap_or_default() {
                ':' => {}
                '=' | '!' => {
                    look = Some((false, is(point, '!')));
                    grouped = false;
                }
                '>' => {
                    atomic = true;
                    grouped = false;
                }
                '<' => {
                    point = self.read();
                    if is(point, '=') || is(point, '!') {
                        look = Some((true, is(point, '!')));
                        grouped = false;
                    } else {
                        let name = self.group_name(point)?;
                        if self.names.contains_key(&name) {
                            return Err(
                                self.error(format!("Named capturing group <{name}> is already defined"))
                            );
                        }
                        number = Some(self.groups);
                        self.names.insert(name, self.groups);
                        self.groups += 1;
                    }
                }
                '$' | '@' => return Err(self.error("Unknown group type")),
                _ => {
                    self.cursor -= 1;
                    self.modes();
                    point = self.read();
                    if is(point, ')') {
                        return Ok(None);
                    }
                    if !is(point, ':') {
                        return Err(self.error("Unknown inline modifier"));
                    }
                }
            }
            begin = self.cursor;
        } else {
            number = Some(self.groups);
            self.groups += 1;
            begin = self.cursor;
        }
        let body = Box::new(self.branches()?);
        let mut node = match look {
            Some((false, negative)) => Node::Look { side: Side::Ahead, negative, body },
            Some((true, negative)) => {
                let extent = Extent::of(&body);
                if !extent.bounded {
                    return Err(self.error("Look-behind group does not have an obvious maximum length"));
                }
                // Java searches the rest of the pattern here, not only the group.
                let points =
                    self.points[begin.min(self.length)..self.length].iter().any(|point| *point > 0xffff);
                Node::Look { side: Side::Behind { min: extent.min, max: extent.max, points }, negative, body }
            }
            None if atomic => Node::Atomic(body),
            None => Node::Group(number, body),
        };
        let end = self.read();
        if !is(end, ')') {
            return Err(self.error("Unclosed group"));
        }
        self.flags = flags;
        if grouped {
            node = self.repeated_group(node)?;
        } else {
            node = self.repeated(node)?;
        }
        Ok(Some(node))
    }

    fn group_name(&mut self, first: u32) -> Result<String> {
        if !is_ascii(first, u8::is_ascii_alphabetic) {
            return Err(self.error("capturing group name does not start with a Latin letter"));
        }
        let mut name = String::new();
        let mut point = first;
        while is_ascii(point, u8::is_ascii_alphanumeric) {
            name.push(char::from(point as u8));
            point = self.read();
        }
        if !is(point, '>') {
            return Err(self.error("named capturing group is missing trailing '>'"));
        }
        Ok(name)
    }

    /// Parses the letters of `(?i-s)` or `(?i-s:`.
    fn modes(&mut self) {
        let mut point = self.peek();
        let mut on = true;
        loop {
            let flags = match char::from_u32(point).unwrap_or_default() {
                'i' => flag::CASE_INSENSITIVE,
                'm' => flag::MULTILINE,
                's' => flag::DOTALL,
                'd' => flag::UNIX_LINES,
                'u' => flag::UNICODE_CASE,
                'c' => flag::CANON_EQ,
                'x' => flag::COMMENTS,
                'U' => flag::UNICODE_CHARACTER_CLASS | flag::UNICODE_CASE,
                '-' if on => 0,
                _ => return,
            };
            if flags == 0 {
                on = false;
            } else if on {
                self.flags |= flags;
            } else {
                self.flags &= !flags;
            }
            point = self.next();
        }
    }

    /// Returns whether the repetition is greedy, lazy (`?` follows) or possessive (`+` follows).
    fn kind(&mut self, point: u32) -> Kind {
        match char::from_u32(point).unwrap_or_default() {
            '?' => {
                self.next();
                Kind::Lazy
            }
            '+' => {
                self.next();
                Kind::Possessive
            }
            _ => Kind::Greedy,
        }
    }

    fn repeated_group(&mut self, node: Node) -> Result<Node> {
        Ok(match self.repeated(node)? {
            Node::Repeat { kind, min, max, body, .. } if kind != Kind::Possessive => {
                let form = if Extent::of(&body).definite { Form::Definite } else { Form::Loop };
                Node::Repeat { form, kind, min, max, body }
            }
            node => node,
        })
    }

    /// Returns the node with the repetition that follows it, if any.
    fn repeated(&mut self, node: Node) -> Result<Node> {
        let point = self.peek();
        let body = Box::new(node);
        Ok(match char::from_u32(point).unwrap_or_default() {
            '?' => {
                let point = self.next();
                Node::Optional(self.kind(point), body)
            }
            '*' | '+' => {
                let after = self.next();
                let kind = self.kind(after);
                let form = Parser::form(&body, kind, ENDLESS);
                Node::Repeat { form, kind, min: i32::from(is(point, '+')), max: ENDLESS, body }
            }
            '{' => {
                let (min, max) = self.counts()?;
                let point = self.peek();
                let kind = self.kind(point);
                Node::Repeat { form: Parser::form(&body, kind, max), kind, min, max, body }
            }
            _ => *body,
        })
    }

    fn form(body: &Node, kind: Kind, max: i32) -> Form {
        match body {
            Node::Set(_) if kind == Kind::Greedy && max == ENDLESS => Form::Run,
            _ => Form::Whole,
        }
    }

    /// Parses the counts of a repetition: `{2}`, `{2,}` or `{2,3}`.
    fn counts(&mut self) -> Result<(i32, i32)> {
        if digit(self.at(self.cursor + 1)).is_none() {
            self.cursor += 2;
            return Err(self.error("Illegal repetition"));
        }
        let mut point = self.skip();
        let min = self.count(&mut point)?;
        let mut max = min;
        if is(point, ',') {
            point = self.read();
            max = ENDLESS;
            if !is(point, '}') {
                max = self.count(&mut point)?;
            }
        }
        if !is(point, '}') {
            return Err(self.error("Unclosed counted closure"));
        }
        if max < min {
            return Err(self.error("Illegal repetition range"));
        }
        Ok((min, max))
    }

    fn count(&mut self, point: &mut u32) -> Result<i32> {
        let mut count = 0i32;
        while let Some(digit) = digit(*point) {
            count = count
                .checked_mul(10)
                .and_then(|count| count.checked_add(digit as i32))
                .ok_or_else(|| self.error("Illegal repetition range"))?;
            *point = self.read();
        }
        Ok(count)
    }
}
