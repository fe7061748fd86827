//! The tree of a pattern, and the possible lengths of its matches.
//!
//! The tree has the same form as Java's where Java's choice has an effect on results. So a group is repeated in one of
//! two ways ([`Form`]). If its body can match in one way only (Java's *deterministic* group, here *definite*), it is
//! repeated by whole matches into which the machine never backtracks. Everything that is not a group is repeated like
//! that, too. Any other group is a loop into which the machine can backtrack.

use std::sync::Arc;

use crate::set::Set;

/// The upper bound of an unlimited repetition, as Java writes it.
pub(super) const ENDLESS: i32 = i32::MAX;

/// Which characters count as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// Only identical characters.
    None,
    /// Identical characters, and the two cases of an ASCII letter.
    Ascii,
    /// Identical characters, and two characters with the same simple case folding.
    Unicode,
}

/// The order in which a repetition tries the possible counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The highest count first.
    Greedy,
    /// The lowest count first.
    Lazy,
    /// Only the highest count.
    Possessive,
}

/// A condition on a position; it consumes no characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// `\A`, and `^` without `MULTILINE`. Also `\G`, since every search here begins at the start.
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

/// How a repetition is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Characters of a set, greedily and without an upper bound.
    Run,
    /// Everything else that is not a group, and every possessive repetition.
    Whole,
    /// A group whose body can match in one way only.
    Definite,
    /// Any other group.
    Loop,
}

/// The direction of a look-around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Ahead,
    /// Before the position, at a distance from `max` to `min`, in UTF-16 units or in code points.
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
    /// A string of characters, already folded.
    Literal(Vec<u32>, Fold),
    Place(Place),
    BackReference(usize, Fold),
    /// `\R`.
    LineEnding,
    /// `\X`.
    Grapheme,
    /// A group with its number, if it is capturing.
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

/// Bounds of the lengths that a node can match. They are computed as Java does, overflow included, because Java
/// accepts or refuses look-behinds by them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) min: i32,
    pub(super) max: i32,
    /// Whether the node has a maximum length, which is then `max`.
    pub(super) bounded: bool,
    pub(super) definite: bool,
}

impl Extent {
    const NOTHING: Extent = Extent { min: 0, max: 0, bounded: true, definite: true };

    /// Returns the extent of a node at the end of a pattern.
    ///
    /// As in Java, the extent of the nodes after a branch is computed separately, up to the end of the pattern, and
    /// then added. The order of additions matters where lengths overflow.
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
