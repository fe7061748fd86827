//! Runs a [program](crate::program) over a text, with backtracking.
//!
//! Untried alternatives are on a stack in the heap, not on the thread's stack. The number of steps and the size of the
//! stack are limited. So a pattern that backtracks too often ends in an error after bounded time.
//!
//! 1. The program runs without a memo, for [`STEPS_PLAIN`] steps and some more for each character.
//! 2. If that was not enough, it starts again with a memo, unless the pattern has a back reference. The memo records
//!    which operation failed at which position, with the values of the registers on which that depends. So nothing is
//!    tried twice, and a search that would take exponentially many steps takes few.
//! 3. After [`STEPS_MAX`] steps it gives up with an error.
//!
//! The machine calls itself for look-arounds, atomic groups and repetitions of whole matches. The depth of these calls
//! is that of nested groups, which the parser limits.

use std::collections::{HashMap, HashSet};

use crate::program::{Loop, Op, Program, Times};
use crate::set::Set;
use crate::syntax::{Fold, Kind, Place, Side};
use crate::text::Text;
use crate::unicode::{self, grapheme};

/// Maximum number of steps without a memo; [`search`] adds some for each unit of the text.
const STEPS_PLAIN: u64 = 20_000;
const STEPS_PLAIN_PER_UNIT: u64 = 16;
/// Maximum number of steps of one search.
pub(super) const STEPS_MAX: u64 = 20_000_000;
/// Maximum number of alternatives on the machine's stack.
const FRAMES_MAX: usize = 1_000_000;
/// Maximum number of entries in the memo.
const MEMORY_MAX: usize = 400_000;
/// If the stack has room for more alternatives after a search, its memory is freed.
const FRAMES_KEPT: usize = 10_000;

const NOT_SET: u32 = u32::MAX;

/// The search took too many steps or too much memory.
#[derive(Debug)]
pub(super) struct TooMuch;

/// An alternative, which is tried when the current one fails.
#[derive(Clone, Copy, Debug)]
enum Frame {
    Try {
        op: usize,
        at: u32,
    },
    Restore {
        register: usize,
        value: u32,
    },
    /// Gives up the last character of a run of characters, which must not end before `least`.
    RunLess {
        op: usize,
        at: u32,
        least: u32,
    },
    RunMore {
        op: usize,
        at: u32,
        left: u32,
    },
    /// Gives up the last match of a repetition of whole matches. The repetition has `count` matches of `length` units
    /// each, and must keep `floor` of them.
    WholeLess {
        op: usize,
        at: u32,
        length: u32,
        count: u32,
        floor: u32,
        group: (u32, u32),
    },
    WholeMore {
        op: usize,
        at: u32,
        count: u32,
    },
}

/// Buffers of a machine, which the next search reuses.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    stack: Vec<Frame>,
    registers: Vec<u32>,
}

/// Whether the program matches anywhere in the text; with `whole`, whether it matches all of it.
pub(super) fn search<T: Text>(
    program: &Program,
    text: &T,
    whole: bool,
    scratch: &mut Scratch,
) -> Result<bool, TooMuch> {
    let limit = STEPS_MAX.min(STEPS_PLAIN + STEPS_PLAIN_PER_UNIT * text.len() as u64);
    let mut machine = Machine { program, text, scratch, steps: 0, limit, memory: None, behind: 0 };
    let found = match machine.search(whole) {
        Err(TooMuch) => {
            machine.limit = STEPS_MAX;
            machine.memory = program.forgetful.then(Memory::default);
            machine.search(whole)
        }
        known => known,
    };
    if scratch.stack.capacity() > FRAMES_KEPT {
        scratch.stack = Vec::new();
    }
    found
}

/// An operation and a position, with the values of the registers on which the result depends.
type State = Box<[u32]>;

#[derive(Debug, Default)]
struct Memory {
    vain: HashSet<State>,
    apart: HashMap<State, Option<usize>>,
    /// Number of separate matchings of parts that have begun so far. Each has a memo of its own.
    scopes: u32,
    scope: u32,
}

struct Machine<'a, T> {
    program: &'a Program,
    text: &'a T,
    scratch: &'a mut Scratch,
    steps: u64,
    limit: u64,
    memory: Option<Memory>,
    /// The position before which the look-behind is matched; its match must end there.
    behind: usize,
}

impl<T: Text> Machine<'_, T> {
    fn search(&mut self, whole: bool) -> Result<bool, TooMuch> {
        self.scratch.stack.clear();
        self.scratch.registers.clear();
        self.scratch.registers.resize(self.program.registers, NOT_SET);
        if whole {
            return self.run(0, 0, Some(self.text.len())).map(|end| end.is_some());
        }
        let Some(last) = self.text.len().checked_sub(self.program.length_min) else { return Ok(false) };
        let last = if self.program.anchored { 0 } else { last };
        let mut at = 0;
        while at <= last {
            if let Some((low, others)) = &self.program.first {
                let begins = |unit: u32| match unit {
                    0..256 => low[unit as usize / 64] >> (unit % 64) & 1 != 0,
                    _ => *others,
                };
                let places = at..self.text.len().min(last + 1);
                let Some(next) = { places }.find(|at| begins(self.text.unit(*at))) else { return Ok(false) };
                self.count((next - at) as u64 / 16)?;
                at = next;
            }
            let halves = !self.program.splits_pairs && at > 0 && self.text.point(at - 1) > 0xffff;
            if !halves && self.run(0, at, None)?.is_some() {
                return Ok(true);
            }
            at += 1;
        }
        Ok(false)
    }

    fn count(&mut self, steps: u64) -> Result<(), TooMuch> {
        self.steps += steps;
        if self.steps > self.limit { Err(TooMuch) } else { Ok(()) }
    }

    fn push(&mut self, frame: Frame) -> Result<(), TooMuch> {
        if self.scratch.stack.len() == FRAMES_MAX {
            return Err(TooMuch);
        }
        self.scratch.stack.push(frame);
        Ok(())
    }

    fn register(&self, register: usize) -> u32 {
        self.scratch.registers[register]
    }

    /// Sets a register. Backtracking to an earlier point restores the old value.
    fn set(&mut self, register: usize, value: u32) -> Result<(), TooMuch> {
        self.push(Frame::Restore { register, value: self.register(register) })?;
        self.scratch.registers[register] = value;
        Ok(())
    }

    fn state(&self, head: [u32; 3]) -> State {
        head.into_iter().chain(self.program.telling.iter().map(|register| self.register(*register))).collect()
    }

    /// Whether this state has failed before or is being tried, so that trying it again is useless.
    fn is_vain(&mut self, op: usize, at: usize) -> Result<bool, TooMuch> {
        let Some(scope) = self.memory.as_ref().map(|memory| memory.scope) else { return Ok(false) };
        let state = self.state([scope, op as u32, at as u32]);
        let Some(memory) = &mut self.memory else { return Ok(false) };
        // If the memo is full, the state is tried again, up to the limit of steps.
        Ok(if memory.vain.len() < MEMORY_MAX {
            !memory.vain.insert(state)
        } else {
            memory.vain.contains(&state)
        })
    }

    /// Matches a part of the program separately, so that the machine does not backtrack into it later. Returns the
    /// position where the match ends; `None` if the part does not match.
    fn apart(&mut self, op: usize, at: usize) -> Result<Option<usize>, TooMuch> {
        let Some(memory) = &mut self.memory else { return self.run(op, at, None) };
        let outer = memory.scope;
        let state = self.state([op as u32, at as u32, self.behind as u32]);
        let Some(memory) = &mut self.memory else { unreachable!("it was there") };
        if let Some(known) = memory.apart.get(&state) {
            return Ok(*known);
        }
        memory.scopes += 1;
        memory.scope = memory.scopes;
        let end = self.run(op, at, None)?;
        if let Some(memory) = &mut self.memory {
            memory.scope = outer;
            if memory.apart.len() < MEMORY_MAX {
                memory.apart.insert(state, end);
            }
        }
        Ok(end)
    }

    /// Runs the program from an operation and a position up to its end, or to the end of a part. Returns the position
    /// that is reached there; `None` if nothing matches.
    fn run(&mut self, op: usize, at: usize, must_end: Option<usize>) -> Result<Option<usize>, TooMuch> {
        let base = self.scratch.stack.len();
        let (mut op, mut at) = (op, at);
        loop {
            self.count(1)?;
            let next = match &self.program.ops[op] {
                Op::End if must_end.is_none_or(|end| end == at) => {
                    // The frames above `base` belong to this part only.
                    self.scratch.stack.truncate(base);
                    return Ok(Some(at));
                }
                Op::EndBehind if at == self.behind => {
                    self.scratch.stack.truncate(base);
                    return Ok(Some(at));
                }
                Op::End | Op::EndBehind => None,
                Op::Set(set) => self.one_of(set, at).map(|at| (op + 1, at)),
                Op::Literal(points, fold) => self.literal(points, *fold, at).map(|at| (op + 1, at)),
                Op::Place(place) => self.is_at(*place, at).then_some((op + 1, at)),
                Op::BackReference(group, fold) => {
                    self.back_reference(*group, *fold, at).map(|at| (op + 1, at))
                }
                Op::LineEnding => self.line_ending(op, at)?.map(|at| (op + 1, at)),
                Op::Grapheme => self.grapheme(at).map(|at| (op + 1, at)),
                Op::Jump(to) => Some((*to, at)),
                Op::Split(_) | Op::SplitAway(_) if self.is_vain(op, at)? => None,
                Op::Split(to) => {
                    self.push(Frame::Try { op: *to, at: at as u32 })?;
                    Some((op + 1, at))
                }
                Op::SplitAway(to) => {
                    self.push(Frame::Try { op: op + 1, at: at as u32 })?;
                    Some((*to, at))
                }
                Op::Open(register) => {
                    self.set(*register, at as u32)?;
                    Some((op + 1, at))
                }
                Op::Close(register, group) => {
                    self.set(*group, self.register(*register))?;
                    self.set(*group + 1, at as u32)?;
                    Some((op + 1, at))
                }
                Op::Run(..) if self.is_vain(op, at)? => None,
                Op::Run(set, times) => self.start_run(op, set, *times, at)?.map(|at| (op + 1, at)),
                Op::LoopEnter(id) => self.enter(&self.program.loops[*id], at)?,
                Op::LoopAgain(id) if self.program.loops[*id].nullable || !self.is_vain(op, at)? => {
                    self.again(&self.program.loops[*id], at)?
                }
                Op::LoopAgain(_) => None,
                Op::Whole { times, group, next } => {
                    let next = *next;
                    self.whole(op, *times, *group, at)?.map(|at| (next, at))
                }
                Op::Look { side, negative, next } => {
                    let next = *next;
                    (self.look(op + 1, *side, at)? != *negative).then_some((next, at))
                }
                Op::Atomic { next } => {
                    let next = *next;
                    self.apart(op + 1, at)?.map(|at| (next, at))
                }
            };
            (op, at) = match next {
                Some(next) => next,
                None => match self.back(base)? {
                    Some(next) => next,
                    None => return Ok(None),
                },
            };
        }
    }

    /// Takes the latest alternative from the stack and returns where it continues; `None` if there is none above
    /// `base`.
    fn back(&mut self, base: usize) -> Result<Option<(usize, usize)>, TooMuch> {
        while self.scratch.stack.len() > base {
            let Some(frame) = self.scratch.stack.pop() else { break };
            match frame {
                Frame::Try { op, at } => return Ok(Some((op, at as usize))),
                Frame::Restore { register, value } => self.scratch.registers[register] = value,
                Frame::RunLess { op, at, least } => {
                    // A run that began in the middle of a surrogate pair ends at its beginning.
                    let less = at as usize - T::width(self.text.point_before(at as usize));
                    let at = less.max(least as usize);
                    if at as u32 > least {
                        self.push(Frame::RunLess { op, at: at as u32, least })?;
                    }
                    return Ok(Some((op + 1, at)));
                }
                Frame::RunMore { op, at, left } => {
                    let Op::Run(set, _) = &self.program.ops[op] else { unreachable!("a run made it") };
                    if let Some(at) = self.one_of(set, at as usize) {
                        if left > 1 {
                            self.push(Frame::RunMore { op, at: at as u32, left: left - 1 })?;
                        }
                        return Ok(Some((op + 1, at)));
                    }
                }
                Frame::WholeLess { op, at, length, count, floor, group } => {
                    let Op::Whole { group: register, next, .. } = &self.program.ops[op] else {
                        unreachable!("a repetition made it")
                    };
                    let (register, next) = (*register, *next);
                    let (at, count) = (at - length, count - 1);
                    if count > floor {
                        self.remember(register, (at - length, at));
                        self.push(Frame::WholeLess { op, at, length, count, floor, group })?;
                    } else {
                        self.remember(register, group);
                    }
                    return Ok(Some((next, at as usize)));
                }
                Frame::WholeMore { op, at, count } => {
                    if let Some(next) = self.whole_more(op, at, count)? {
                        return Ok(Some(next));
                    }
                }
            }
            self.count(1)?;
        }
        Ok(None)
    }

    fn one_of(&self, set: &Set, at: usize) -> Option<usize> {
        if at >= self.text.len() {
            return None;
        }
        let point = self.text.point(at);
        set.contains(point).then(|| at + T::width(point))
    }

    fn literal(&self, points: &[u32], fold: Fold, at: usize) -> Option<usize> {
        let mut at = at;
        for wanted in points {
            if at >= self.text.len() {
                return None;
            }
            let point = self.text.point(at);
            let same = *wanted == point
                || match fold {
                    Fold::None => false,
                    Fold::Ascii => point < 128 && u32::from((point as u8).to_ascii_lowercase()) == *wanted,
                    Fold::Unicode => unicode::fold(point) == *wanted,
                };
            if !same {
                return None;
            }
            at += T::width(point);
        }
        Some(at)
    }

    fn back_reference(&self, group: usize, fold: Fold, at: usize) -> Option<usize> {
        let begin = *self.scratch.registers.get(2 * group)?;
        if begin == NOT_SET {
            return None;
        }
        let (mut mine, end) = (begin as usize, self.register(2 * group + 1) as usize);
        let mut at = at;
        if at + end.checked_sub(mine)? > self.text.len() {
            return None;
        }
        while mine < end {
            let (left, right) = match fold {
                Fold::None => (self.text.unit(at), self.text.unit(mine)),
                _ => (self.text.point(at), self.text.point(mine)),
            };
            let same = left == right
                || match fold {
                    Fold::None => false,
                    Fold::Ascii => {
                        left < 128 && right < 128 && (left as u8).eq_ignore_ascii_case(&(right as u8))
                    }
                    Fold::Unicode => {
                        let (left, right) = (unicode::to_upper(left), unicode::to_upper(right));
                        left == right || unicode::to_lower(left) == unicode::to_lower(right)
                    }
                };
            if !same {
                return None;
            }
            if fold == Fold::None {
                (at, mine) = (at + 1, mine + 1);
            } else {
                (at, mine) = (at + T::width(left), mine + T::width(right));
            }
        }
        Some(at)
    }

    fn line_ending(&mut self, op: usize, at: usize) -> Result<Option<usize>, TooMuch> {
        if at >= self.text.len() {
            return Ok(None);
        }
        Ok(match self.text.unit(at) {
            0x0d if at + 1 < self.text.len() && self.text.unit(at + 1) == 0x0a => {
                self.push(Frame::Try { op: op + 1, at: at as u32 + 1 })?;
                Some(at + 2)
            }
            0x0a..=0x0d | 0x85 | 0x2028 | 0x2029 => Some(at + 1),
            _ => None,
        })
    }

    /// Returns the end of the grapheme cluster that begins at `at`; `None` at the end of the text.
    fn grapheme(&self, at: usize) -> Option<usize> {
        if at >= self.text.len() {
            return None;
        }
        let point = self.text.point(at);
        let mut walk = grapheme::Walk::from(point);
        let mut at = at + T::width(point);
        while at < self.text.len() {
            let point = self.text.point(at);
            if !walk.takes(point) {
                break;
            }
            at += T::width(point);
        }
        Some(at)
    }

    fn start_run(&mut self, op: usize, set: &Set, times: Times, at: usize) -> Result<Option<usize>, TooMuch> {
        let (mut at, mut count) = (at, 0);
        let wanted = if times.kind == Kind::Lazy { times.min } else { times.max };
        let mut least = at;
        while count < wanted {
            if count == times.min {
                least = at;
            }
            let Some(next) = self.one_of(set, at) else { break };
            (at, count) = (next, count + 1);
        }
        self.count(u64::from(count) / 8)?;
        if count < times.min {
            return Ok(None);
        }
        match times.kind {
            Kind::Greedy if count > times.min => {
                self.push(Frame::RunLess { op, at: at as u32, least: least as u32 })?;
            }
            Kind::Lazy if times.max > times.min => {
                self.push(Frame::RunMore { op, at: at as u32, left: times.max - times.min })?;
            }
            _ => {}
        }
        Ok(Some(at))
    }

    fn enter(&mut self, one: &Loop, at: usize) -> Result<Option<(usize, usize)>, TooMuch> {
        let Times { kind, min, max, .. } = one.times;
        if max == 0 {
            return Ok(Some((one.next, at)));
        }
        if min == 0 && kind == Kind::Lazy {
            // Until the body is tried, nothing changes the count permanently.
            self.set_count(one, 1)?;
            self.push(Frame::Try { op: one.body, at: at as u32 })?;
            return Ok(Some((one.next, at)));
        }
        if min == 0 {
            self.push(Frame::Try { op: one.next, at: at as u32 })?;
        }
        self.set_count(one, 1)?;
        Ok(Some((one.body, at)))
    }

    fn set_count(&mut self, one: &Loop, count: u32) -> Result<(), TooMuch> {
        if one.counts() { self.set(one.count, count) } else { Ok(()) }
    }

    fn again(&mut self, one: &Loop, at: usize) -> Result<Option<(usize, usize)>, TooMuch> {
        let Times { kind, min, max, .. } = one.times;
        // After an empty iteration there is no further one.
        if one.nullable && at as u32 == self.register(one.begin) {
            return Ok(Some((one.next, at)));
        }
        let count = if one.counts() { self.register(one.count) } else { min };
        if count < min {
            self.set_count(one, count + 1)?;
            return Ok(Some((one.body, at)));
        }
        if count >= max {
            return Ok(Some((one.next, at)));
        }
        if kind == Kind::Lazy {
            self.set_count(one, count.saturating_add(1))?;
            self.push(Frame::Try { op: one.body, at: at as u32 })?;
            return Ok(Some((one.next, at)));
        }
        self.push(Frame::Try { op: one.next, at: at as u32 })?;
        self.set_count(one, count.saturating_add(1))?;
        Ok(Some((one.body, at)))
    }

    fn remember(&mut self, register: Option<usize>, group: (u32, u32)) {
        if let Some(register) = register {
            (self.scratch.registers[register], self.scratch.registers[register + 1]) = group;
        }
    }

    fn remembered(&self, register: Option<usize>) -> (u32, u32) {
        register.map_or((NOT_SET, NOT_SET), |register| (self.register(register), self.register(register + 1)))
    }

    fn whole(
        &mut self,
        op: usize,
        times: Times,
        group: Option<usize>,
        at: usize,
    ) -> Result<Option<usize>, TooMuch> {
        if self.is_vain(op, at)? {
            return Ok(None);
        }
        if let Some(register) = group {
            for register in [register, register + 1] {
                self.push(Frame::Restore { register, value: self.register(register) })?;
            }
        }
        let (mut at, mut count) = (at, 0);
        while count < times.min {
            let Some(end) = self.apart(op + 1, at)? else { return Ok(None) };
            self.remember(group, (at as u32, end as u32));
            let empty = end == at;
            (at, count) = (end, count + 1);
            if empty && self.program.forgetful {
                // All further iterations are empty, too. With back references, the next one may differ.
                count = times.min;
            }
            self.count(1)?;
        }
        match times.kind {
            Kind::Possessive => {
                while count < times.max {
                    let Some(end) = self.apart(op + 1, at)? else { break };
                    if end == at {
                        break;
                    }
                    (at, count) = (end, count + 1);
                }
                Ok(Some(at))
            }
            Kind::Lazy => {
                self.push(Frame::WholeMore { op, at: at as u32, count })?;
                Ok(Some(at))
            }
            Kind::Greedy => self.whole_greedy(op, times, group, at, count).map(Some),
        }
    }

    fn whole_more(&mut self, op: usize, at: u32, count: u32) -> Result<Option<(usize, usize)>, TooMuch> {
        let Op::Whole { times, group, next } = &self.program.ops[op] else {
            unreachable!("a repetition made it")
        };
        let (times, group, next) = (*times, *group, *next);
        if count >= times.max {
            return Ok(None);
        }
        let Some(end) = self.apart(op + 1, at as usize)? else { return Ok(None) };
        if end as u32 == at && !times.optional {
            return Ok(None);
        }
        self.remember(group, (at, end as u32));
        self.push(Frame::WholeMore { op, at: end as u32, count: count + 1 })?;
        Ok(Some((next, end)))
    }

    /// Repeats a whole match greedily. Consecutive matches of equal length share one frame on the stack.
    fn whole_greedy(
        &mut self,
        op: usize,
        times: Times,
        group: Option<usize>,
        at: usize,
        count: u32,
    ) -> Result<usize, TooMuch> {
        let (mut at, mut count) = (at, count);
        let mut known = None;
        loop {
            let (floor, before) = (count, self.remembered(group));
            if count >= times.max {
                return Ok(at);
            }
            let end = match known.take() {
                Some(end) => end,
                None => match self.apart(op + 1, at)? {
                    Some(end) if end > at => end,
                    _ => return Ok(at),
                },
            };
            let length = end - at;
            let mut other = None;
            loop {
                self.remember(group, (at as u32, (at + length) as u32));
                (at, count) = (at + length, count + 1);
                self.count(1)?;
                if count >= times.max {
                    break;
                }
                match self.apart(op + 1, at)? {
                    Some(end) if end == at + length => {}
                    Some(end) if end > at => {
                        other = Some(end);
                        break;
                    }
                    _ => break,
                }
            }
            self.push(Frame::WholeLess {
                op,
                at: at as u32,
                length: length as u32,
                count,
                floor,
                group: before,
            })?;
            if other.is_none() {
                return Ok(at);
            }
            known = other;
        }
    }

    fn look(&mut self, op: usize, side: Side, at: usize) -> Result<bool, TooMuch> {
        let Side::Behind { min, max, points } = side else { return Ok(self.apart(op, at)?.is_some()) };
        let outer = std::mem::replace(&mut self.behind, at);
        // Lengths may have overflowed; Java has the same result then.
        let back = |length: i32| -> i32 {
            if !points {
                return (at as i32).wrapping_sub(length);
            }
            let mut other = at;
            for _ in 0..length {
                if other == 0 {
                    break;
                }
                other -= T::width(self.text.point_before(other));
            }
            let ahead = if length == i32::MIN { 0 } else { length };
            for _ in ahead..0 {
                if other == self.text.len() {
                    break;
                }
                other += T::width(self.text.point(other));
            }
            at as i32 - other.abs_diff(at) as i32
        };
        let last = usize::try_from(back(max)).unwrap_or(0);
        let mut found = false;
        let mut from = usize::try_from(back(min)).ok().filter(|from| *from <= self.text.len());
        while let Some(begin) = from.filter(|begin| *begin >= last) {
            if self.apart(op, begin)?.is_some() {
                found = true;
                break;
            }
            let step = if points && begin > 0 { T::width(self.text.point_before(begin)) } else { 1 };
            from = begin.checked_sub(step);
        }
        self.behind = outer;
        Ok(found)
    }

    fn is_at(&self, place: Place, at: usize) -> bool {
        let end = self.text.len();
        let unit = |index: usize| self.text.unit(index);
        let ends = |unit: u32| matches!(unit, 0x0a | 0x0d | 0x85 | 0x2028 | 0x2029);
        match place {
            Place::Begin => at == 0,
            Place::End => at == end,
            // As in Java, no line begins at the end of the text, even after a line end.
            Place::LineBegin { .. } if at == end => false,
            Place::LineBegin { .. } if at == 0 => true,
            Place::LineBegin { unix: true } => unit(at - 1) == 0x0a,
            Place::LineBegin { unix: false } => {
                ends(unit(at - 1)) && !(unit(at - 1) == 0x0d && unit(at) == 0x0a)
            }
            Place::LastLineEnd { unix: true } => at == end || at + 1 == end && unit(at) == 0x0a,
            Place::LineEnd { unix: true } => at == end || unit(at) == 0x0a,
            Place::LastLineEnd { unix: false } | Place::LineEnd { unix: false } => {
                let last = place == Place::LastLineEnd { unix: false };
                let left = end - at;
                let both = left >= 2 && unit(at) == 0x0d && unit(at + 1) == 0x0a;
                if last && (left > 2 || left == 2 && !both) {
                    return false;
                }
                // No line ends between the two characters of `\r\n`.
                left == 0 || ends(unit(at)) && !(unit(at) == 0x0a && at > 0 && unit(at - 1) == 0x0d)
            }
            Place::WordBound { is, unicode } => {
                (self.is_word_before(at, unicode) != self.is_word_at(at, unicode)) == is
            }
            Place::GraphemeBound => self.is_grapheme_bound(at),
        }
    }

    fn is_word_before(&self, at: usize, unicode: bool) -> bool {
        at > 0 && self.is_word(self.text.point_before(at), at - 1, unicode)
    }

    fn is_word_at(&self, at: usize, unicode: bool) -> bool {
        at < self.text.len() && self.is_word(self.text.point(at), at, unicode)
    }

    fn is_word(&self, point: u32, at: usize, unicode: bool) -> bool {
        let word = if unicode {
            unicode::is_word(point)
        } else {
            point == '_' as u32 || unicode::is_letter_or_digit(point)
        };
        word || unicode::is_non_spacing_mark(point) && self.has_base(at)
    }

    /// Whether a letter or digit precedes the non-spacing marks that end at `at`.
    fn has_base(&self, at: usize) -> bool {
        for at in (0..=at).rev() {
            let point = self.text.point(at);
            if unicode::is_letter_or_digit(point) {
                return true;
            }
            if !unicode::is_non_spacing_mark(point) {
                return false;
            }
        }
        false
    }

    fn is_grapheme_bound(&self, at: usize) -> bool {
        let end = self.text.len();
        if at == 0 || at == end {
            return true;
        }
        let mut begin = 0;
        while begin < at {
            match self.grapheme(begin) {
                Some(next) => begin = next,
                None => return false,
            }
        }
        begin == at
    }
}
