//! What a pattern is made of, and how long what it matches can be.
//!
//! The shapes follow Java's where its choice shows in what is matched: how a group is repeated depends on whether its
//! inside is *definite*, that is, can match in one way only ([`Form`]). A definite group, like anything else that is no
//! group, is repeated by matches that are never looked into again; any other one can be gone back into.

use std::sync::Arc;

use crate::set::Set;

/// No upper bound, as Java writes it.
pub(super) const ENDLESS: i32 = i32::MAX;

/// Which characters are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// Equal ones.
    None,
    /// Those that differ in the case of an ASCII letter.
    Ascii,
    /// Those of one simple case folding.
    Unicode,
}

/// How eagerly a repetition takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As often as possible first.
    Greedy,
    /// As rarely as possible first.
    Lazy,
    /// As often as possible, and never less.
    Possessive,
}

/// What must be at a place, and takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// `\A`, and `^` without `MULTILINE`; `\G`, for every search here is a first one.
    Begin,
    /// `^` with `MULTILINE`.
    LineBegin { unix: bool },
    /// `\z`.
    End,
    /// `\Z`, and `$` without `MULTILINE`.
    LastLineEnd { unix: bool },
    /// `$` with `MULTILINE`.
    LineEnd { unix: bool },
    /// `\b`, or `\B`.
    WordBound { is: bool, unicode: bool },
    /// `\b{g}`.
    GraphemeBound,
}

/// How what is repeated is gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One character of a set, greedily and without an upper bound.
    Run,
    /// Whatever else is no group, and every possessive repetition.
    Whole,
    /// A group that can match in one way only.
    Definite,
    /// Any other group.
    Loop,
}

/// Where what is looked at lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Ahead,
    /// From `max` to `min` before the place, in UTF-16 units, or in code points.
    Behind {
        min: i32,
        max: i32,
        points: bool,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Empty,
    Set(Arc<Set>),
    /// Characters one after the other, already folded.
    Literal(Vec<u32>, Fold),
    Place(Place),
    BackReference(usize, Fold),
    /// `\R`.
    LineEnding,
    /// `\X`.
    Grapheme,
    /// In parentheses, with its number when it is remembered.
    Group(Option<usize>, Box<Node>),
    Look {
        side: Side,
        negative: bool,
        body: Box<Node>,
    },
    Atomic(Box<Node>),
    Branch(Vec<Node>),
    Sequence(Vec<Node>),
    /// `?`.
    Optional(Kind, Box<Node>),
    Repeat {
        form: Form,
        kind: Kind,
        min: i32,
        max: i32,
        body: Box<Node>,
    },
}

/// What is known of what a node matches. Lengths are reckoned as Java does, overflow included: they decide which
/// look-behinds it accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) min: i32,
    pub(super) max: i32,
    /// Whether `max` means something.
    pub(super) bounded: bool,
    pub(super) definite: bool,
}

impl Extent {
    const NOTHING: Extent = Extent { min: 0, max: 0, bounded: true, definite: true };

    /// Of a node with nothing behind it.
    ///
    /// What stands behind a branch is reckoned for itself and added, up to the end of all: where lengths overflow, it
    /// shows.
    pub(super) fn of(node: &Node) -> Extent {
        Extent::NOTHING.with(node)
    }

    fn with(self, node: &Node) -> Extent {
        let mut extent = self;
        let mut before = Vec::new();
        let mut rest = vec![node];
        while let Some(node) = rest.pop() {
            match node {
                Node::Group(_, body) => rest.push(body),
                Node::Atomic(body) => extent = extent.with(body),
                Node::Sequence(nodes) => rest.extend(nodes.iter().rev()),
                Node::Branch(nodes) => {
                    before.push(extent.one_of(nodes.iter().map(Extent::of)));
                    extent = Extent::NOTHING;
                }
                Node::Optional(kind, body)
                    if matches!(**body, Node::Group(..)) && *kind != Kind::Possessive =>
                {
                    before.push(extent.one_of([Extent::of(body), Extent::NOTHING]));
                    extent = Extent::NOTHING;
                }
                _ => extent.then(node),
            }
        }
        for before in before.into_iter().rev() {
            extent.min = extent.min.wrapping_add(before.min);
            extent.max = extent.max.wrapping_add(before.max);
            extent.bounded &= before.bounded;
            extent.definite = false;
        }
        extent
    }

    fn add(&mut self, length: usize) {
        let length = length as i32;
        self.min = self.min.wrapping_add(length);
        self.max = self.max.wrapping_add(length);
    }

    fn then(&mut self, node: &Node) {
        match node {
            Node::Empty | Node::Place(_) | Node::Look { .. } => {}
            Node::Set(_) => self.add(1),
            Node::Literal(points, _) => self.add(points.len()),
            Node::BackReference(..) => self.bounded = false,
            Node::LineEnding => {
                self.min = self.min.wrapping_add(1);
                self.max = self.max.wrapping_add(2);
            }
            Node::Grapheme => {
                self.min = self.min.wrapping_add(1);
                self.definite = false;
            }
            Node::Group(..) | Node::Atomic(_) | Node::Sequence(_) | Node::Branch(_) => {
                unreachable!("they are taken apart before")
            }
            Node::Optional(_, body) => {
                *self = Extent { min: self.min, definite: false, ..self.with(body) };
            }
            Node::Repeat { form: Form::Run, min, .. } => {
                self.min = self.min.wrapping_add(*min);
                if self.bounded {
                    self.max = self.max.wrapping_add(ENDLESS);
                }
                self.definite = false;
            }
            Node::Repeat { form: Form::Loop, .. } => (self.bounded, self.definite) = (false, false),
            Node::Repeat { min, max, body, .. } => self.repeat(Extent::of(body), *min, *max),
        }
    }

    fn one_of(mut self, ways: impl IntoIterator<Item = Extent>) -> Extent {
        let (mut min, mut max) = (i32::MAX, -1);
        for way in ways {
            (min, max) = (min.min(way.min), max.max(way.max));
            self.bounded &= way.bounded;
        }
        self.min = self.min.wrapping_add(min);
        self.max = self.max.wrapping_add(max);
        self
    }

    fn repeat(&mut self, body: Extent, min: i32, max: i32) {
        let least = body.min.wrapping_mul(min).wrapping_add(self.min);
        let most = body.max.wrapping_mul(max).wrapping_add(self.max);
        self.min = if least < self.min { 0x0fff_ffff } else { least };
        self.bounded &= body.bounded && most >= self.max;
        self.max = most;
        self.definite &= body.definite && min == max;
    }
}
