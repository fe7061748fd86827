//! Compiles a pattern to a program for the [machine](crate::machine).
//!
//! After each operation the machine continues with the next one, unless the operation says otherwise. Some parts are
//! matched separately: look-arounds, atomic groups, repetitions of whole matches. Such a part follows its operation and
//! ends in `End`, and the operation then continues after it.

use std::sync::Arc;

use crate::Syntax;
use crate::parse::Parsed;
use crate::set::Set;
use crate::syntax::{ENDLESS, Extent, Fold, Form, Kind, Node, Place, Side};
use crate::unicode;

/// Maximum number of operations of a program.
const OPERATIONS_MAX: usize = 1_000_000;

/// The bounds of a repetition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) kind: Kind,
    pub(super) min: u32,
    pub(super) max: u32,
    /// Whether the repetition was written as `?`. Then an empty match of the body counts, too.
    pub(super) optional: bool,
}

/// An operation of a program. A target is the index of an operation.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Matches one character of the set.
    Set(Arc<Set>),
    /// Matches these characters one after the other.
    Literal(Box<[u32]>, Fold),
    /// Matches the empty string at such a position.
    Place(Place),
    /// Matches the text that the group matched last. The group's first register is given.
    BackReference(usize, Fold),
    LineEnding,
    Grapheme,
    /// Continues with the next operation; if that fails, at the target.
    Split(usize),
    /// Continues at the target; if that fails, with the next operation.
    SplitAway(usize),
    /// Continues at the target.
    Jump(usize),
    /// Begins a group: stores the position in a register.
    Open(usize),
    /// Ends a group. The first number is the register of [`Op::Open`]. Copies its value, the group's begin, to the
    /// register with the second number, and stores the current position, the group's end, in the register after that.
    Close(usize, usize),
    /// Matches consecutive characters of the set, as many as the bounds allow.
    Run(Arc<Set>, Times),
    /// Begins the loop with this index in [`Program::loops`].
    LoopEnter(usize),
    /// Ends an iteration of the loop with this index: begins the next iteration or leaves the loop.
    LoopAgain(usize),
    /// Repeats the operations that follow, up to their [`Op::End`], and continues at `next`. The machine may change how
    /// often they match, but never how a single repetition matched. If `group` is given, the begin of the last
    /// repetition is stored in that register, and its end in the register after it.
    Whole {
        times: Times,
        group: Option<usize>,
        next: usize,
    },
    /// A look-ahead or look-behind: continues at `next` if the operations that follow match, or, with `negative`, if
    /// they do not.
    Look {
        side: Side,
        negative: bool,
        next: usize,
    },
    /// An atomic group: matches the operations that follow once, and continues at `next` without ever backtracking into
    /// them.
    Atomic {
        next: usize,
    },
    /// The program, or a part that is matched separately, has matched.
    End,
    /// The end of a look-behind: matches only if the position is where the look-behind began.
    EndBehind,
}

/// A repeated group into which the machine can backtrack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loop {
    /// The register with the number of iterations so far.
    pub(super) count: usize,
    /// The register with the position at which the current iteration began.
    pub(super) begin: usize,
    pub(super) times: Times,
    pub(super) body: usize,
    pub(super) next: usize,
    /// Whether an iteration can match the empty string. If so, the loop ends when an iteration ends where it began, at
    /// `begin`.
    pub(super) nullable: bool,
}

impl Loop {
    /// Whether the machine must count iterations.
    pub(super) fn counts(&self) -> bool {
        self.times.min > 1 || self.times.max != u32::MAX
    }
}

/// The units of the text (bytes or UTF-16 units) with which a match can begin: a bitmap of the units below 256, and
/// whether a match can begin with any larger unit.
pub(super) type First = ([u64; 4], bool);

#[derive(Debug)]
pub(super) struct Program {
    pub(super) ops: Vec<Op>,
    pub(super) loops: Vec<Loop>,
    /// Number of registers that the machine needs.
    pub(super) registers: usize,
    /// The units with which a match can begin; `None` if it can begin with any unit or be empty.
    pub(super) first: Option<First>,
    /// Whether a match can begin only at the start of the text.
    pub(super) anchored: bool,
    /// Minimum length of a match, in units of the text.
    pub(super) length_min: usize,
    /// Whether a match may begin in the middle of a surrogate pair.
    pub(super) splits_pairs: bool,
    /// Whether the pattern has no back reference. Then the result at a position depends only on the registers in
    /// `telling`, and the machine remembers positions that failed.
    pub(super) forgetful: bool,
    /// The registers of loops on which a result can depend: counters, and begins of iterations that may be empty.
    pub(super) telling: Vec<usize>,
}

/// Compiles a pattern.
pub(super) fn compile(parsed: &Parsed) -> Result<Program, Syntax> {
    let groups = if parsed.refers_back { 2 * parsed.groups.max(10) } else { 0 };
    let mut compiler =
        Compiler { ops: Vec::new(), loops: Vec::new(), registers: groups, remembers: parsed.refers_back };
    compiler.node(&parsed.node)?;
    compiler.push(Op::End)?;
    let mut telling = Vec::new();
    for one in &compiler.loops {
        if one.counts() {
            telling.push(one.count);
        }
        if one.nullable {
            telling.push(one.begin);
        }
    }
    Ok(Program {
        ops: compiler.ops,
        loops: compiler.loops,
        registers: compiler.registers,
        first: first(&parsed.node),
        anchored: is_anchored(&parsed.node),
        length_min: usize::try_from(Extent::of(&parsed.node).min).unwrap_or(0),
        splits_pairs: parsed.splits_pairs,
        forgetful: !parsed.refers_back,
        telling,
    })
}

struct Compiler {
    ops: Vec<Op>,
    loops: Vec<Loop>,
    registers: usize,
    remembers: bool,
}

impl Compiler {
    fn push(&mut self, op: Op) -> Result<usize, Syntax> {
        if self.ops.len() == OPERATIONS_MAX {
            let description = format!("a pattern of more than {OPERATIONS_MAX} parts");
            return Err(Syntax { description, index: -1 });
        }
        self.ops.push(op);
        Ok(self.ops.len() - 1)
    }

    fn register(&mut self) -> usize {
        self.registers += 1;
        self.registers - 1
    }

    /// Adds a part that is matched separately. Returns the index of the operation after it.
    fn apart(&mut self, body: &Node, end: Op) -> Result<usize, Syntax> {
        self.node(body)?;
        self.push(end)?;
        Ok(self.ops.len())
    }

    fn node(&mut self, node: &Node) -> Result<(), Syntax> {
        match node {
            Node::Empty => {}
            Node::Set(set) => {
                self.push(Op::Set(set.clone()))?;
            }
            Node::Literal(points, fold) => {
                self.push(Op::Literal(points.clone().into(), *fold))?;
            }
            Node::Place(place) => {
                self.push(Op::Place(*place))?;
            }
            Node::BackReference(group, fold) => {
                self.push(Op::BackReference(*group, *fold))?;
            }
            Node::LineEnding => {
                self.push(Op::LineEnding)?;
            }
            Node::Grapheme => {
                self.push(Op::Grapheme)?;
            }
            Node::Group(number, body) => {
                let register = self.register();
                self.group(*number, register, body, false)?;
            }
            Node::Look { side, negative, body } => {
                let at = self.push(Op::Look { side: *side, negative: *negative, next: 0 })?;
                let end = if *side == Side::Ahead { Op::End } else { Op::EndBehind };
                let behind = self.apart(body, end)?;
                let Op::Look { next, .. } = &mut self.ops[at] else { unreachable!("it was put there") };
                *next = behind;
            }
            Node::Atomic(body) => {
                let at = self.push(Op::Atomic { next: 0 })?;
                let next = self.apart(body, Op::End)?;
                self.ops[at] = Op::Atomic { next };
            }
            Node::Branch(nodes) => self.branch(nodes)?,
            Node::Sequence(nodes) => nodes.iter().try_for_each(|node| self.node(node))?,
            Node::Optional(kind, body) => match (&**body, kind) {
                (Node::Group(..), Kind::Greedy | Kind::Lazy) => {
                    let at = self.push(Op::Jump(0))?;
                    self.node(body)?;
                    let behind = self.ops.len();
                    self.ops[at] =
                        if *kind == Kind::Greedy { Op::Split(behind) } else { Op::SplitAway(behind) };
                }
                _ => self.whole(body, Times { kind: *kind, min: 0, max: 1, optional: true }, false)?,
            },
            Node::Repeat { form, kind, min, max, body } => {
                let max = if *max == ENDLESS { u32::MAX } else { *max as u32 };
                let times = Times { kind: *kind, min: *min as u32, max, optional: false };
                match form {
                    Form::Run | Form::Whole => self.whole(body, times, false)?,
                    Form::Definite => self.whole(body, times, true)?,
                    Form::Loop => self.repeated(body, times)?,
                }
            }
        }
        Ok(())
    }

    fn group(
        &mut self,
        number: Option<usize>,
        register: usize,
        body: &Node,
        nullable: bool,
    ) -> Result<(), Syntax> {
        let remembered = number.filter(|_| self.remembers);
        if nullable || remembered.is_some() {
            self.push(Op::Open(register))?;
        }
        self.node(body)?;
        if let Some(number) = remembered {
            self.push(Op::Close(register, 2 * number))?;
        }
        Ok(())
    }

    fn branch(&mut self, nodes: &[Node]) -> Result<(), Syntax> {
        let mut ends = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let last = index + 1 == nodes.len();
            let split = if last { None } else { Some(self.push(Op::Split(0))?) };
            self.node(node)?;
            if let Some(split) = split {
                ends.push(self.push(Op::Jump(0))?);
                self.ops[split] = Op::Split(self.ops.len());
            }
        }
        for end in ends {
            self.ops[end] = Op::Jump(self.ops.len());
        }
        Ok(())
    }

    /// Compiles a repetition of whole matches. If `definite` is set, this operation stores the group's captures, and
    /// the group itself does not.
    fn whole(&mut self, body: &Node, times: Times, definite: bool) -> Result<(), Syntax> {
        if let Node::Set(set) = body {
            self.push(Op::Run(set.clone(), times))?;
            return Ok(());
        }
        let (body, group) = match body {
            Node::Group(number, inside) if definite => {
                (&**inside, number.filter(|_| self.remembers).map(|number| 2 * number))
            }
            _ => (body, None),
        };
        let at = self.push(Op::Whole { times, group, next: 0 })?;
        let next = self.apart(body, Op::End)?;
        self.ops[at] = Op::Whole { times, group, next };
        Ok(())
    }

    fn repeated(&mut self, body: &Node, times: Times) -> Result<(), Syntax> {
        let Node::Group(number, inside) = body else { unreachable!("only groups become loops") };
        let (count, begin) = (self.register(), self.register());
        let id = self.loops.len();
        let nullable = is_nullable(inside);
        self.loops.push(Loop { count, begin, times, body: 0, next: 0, nullable });
        self.push(Op::LoopEnter(id))?;
        self.loops[id].body = self.ops.len();
        self.group(*number, begin, inside, nullable)?;
        self.push(Op::LoopAgain(id))?;
        self.loops[id].next = self.ops.len();
        Ok(())
    }
}

/// Whether a match of the node may be empty. May return `true` for a node whose matches are never empty.
fn is_nullable(node: &Node) -> bool {
    match node {
        Node::Set(_) | Node::Literal(..) | Node::LineEnding | Node::Grapheme => false,
        Node::Empty | Node::Place(_) | Node::BackReference(..) | Node::Look { .. } | Node::Optional(..) => {
            true
        }
        Node::Group(_, body) | Node::Atomic(body) => is_nullable(body),
        Node::Branch(nodes) => nodes.iter().any(is_nullable),
        Node::Sequence(nodes) => nodes.iter().all(is_nullable),
        Node::Repeat { min, body, .. } => *min == 0 || is_nullable(body),
    }
}

fn is_anchored(node: &Node) -> bool {
    match node {
        Node::Place(Place::Begin) => true,
        Node::Sequence(nodes) => nodes.first().is_some_and(is_anchored),
        Node::Group(_, body) | Node::Atomic(body) => is_anchored(body),
        Node::Branch(nodes) => nodes.iter().all(is_anchored),
        _ => false,
    }
}

/// Returns the units with which a match of the node can begin; `None` if they are unknown or the match may be empty.
fn first(node: &Node) -> Option<First> {
    match node {
        Node::Set(set) => Some(set.low()),
        Node::Literal(points, fold) => points.first().map(|point| first_of(*point, *fold)),
        Node::Group(_, body) | Node::Atomic(body) => first(body),
        Node::Branch(nodes) => nodes.iter().map(first).reduce(|all, one| {
            let ((mut low, others), (more, more_others)) = (all?, one?);
            low.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
            Some((low, others || more_others))
        })?,
        // Nodes that consume nothing are skipped.
        Node::Sequence(nodes) => first(
            nodes.iter().find(|node| !matches!(node, Node::Empty | Node::Place(_) | Node::Look { .. }))?,
        ),
        Node::Repeat { min, body, .. } if *min > 0 => first(body),
        _ => None,
    }
}

fn first_of(point: u32, fold: Fold) -> First {
    let same = |other: u32| match fold {
        Fold::None => other == point,
        Fold::Ascii => {
            other == point || other < 128 && u32::from((other as u8).to_ascii_lowercase()) == point
        }
        Fold::Unicode => other == point || unicode::fold(other) == point,
    };
    let mut low = [0u64; 4];
    for other in (0..256u32).filter(|other| same(*other)) {
        low[other as usize / 64] |= 1 << (other % 64);
    }
    (low, point > 255 || fold == Fold::Unicode)
}
