//! Decodes `MultiRequest` with little work per action.
//!
//! The actions of a batch are usually alike: gets of the same columns, or puts whose cells are in the cell block. Their
//! messages differ only in the row, which comes first. So each message is split after its row. If the rest equals that
//! of the previous action, it is already decoded, and only the row must be found.
//!
//! Requests in another form (other field order, unknown fields, truncated) are decoded by the plain decoder, which also
//! reports errors. A request whose messages would take far more memory than its length is refused in either way.

use std::ops::Range;

use bytes::Bytes;
use prost::{DecodeError, Message};
use proto::pb;
use proto::wire::{Fields, Value};

use super::size_limit::{self, Oversized};
use super::specifier::specifier;

/// Memory that the exception for an action that asks for nothing takes, in bytes.
const EXCEPTION: usize = 512;

/// A decoded `pb::MultiRequest`.
#[derive(Debug, Default)]
pub(crate) struct MultiRequest {
    pub(crate) region_action: Vec<RegionAction>,
    pub(crate) nonce_group: Option<u64>,
    pub(crate) condition: Option<pb::Condition>,
    bytes: Bytes,
    alike: Vec<Alike>,
    /// Size in bytes of everything decoded except the small entries of actions that are alike.
    decoded: usize,
}

/// Why a request is not decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    #[error(transparent)]
    Oversized(#[from] Oversized),
}

/// A decoded `pb::RegionAction`.
#[derive(Debug, Default)]
pub(crate) struct RegionAction {
    pub(crate) region: pb::RegionSpecifier,
    pub(crate) atomic: Option<bool>,
    pub(crate) action: Vec<Action>,
    pub(crate) condition: Option<pb::Condition>,
}

/// A decoded `pb::Action`.
#[derive(Debug)]
pub(crate) enum Action {
    /// A [shared message](MultiRequest::alike) with another row, given by its position in the request.
    Like {
        index: u32,
        alike: u32,
        row: Range<u32>,
    },
    /// The action asks for nothing.
    Empty {
        index: u32,
    },
    Whole(Box<pb::Action>),
}

/// A message that many actions share except for the row.
#[derive(Debug)]
struct Alike {
    /// Position of the bytes after the row in the request.
    rest: Range<usize>,
    what: What,
}

#[derive(Debug)]
enum What {
    Get(pb::Get),
    Mutation(pb::MutationProto),
}

/// What an action asks the region to do.
#[derive(Debug)]
pub(crate) enum ActionKind<'a> {
    /// A get of this row. Gets with the same number differ only in their rows.
    Get(Bytes, &'a pb::Get, Option<u32>),
    /// A mutation of this row, or of the row of its first cell.
    Mutation(Option<Bytes>, &'a pb::MutationProto),
    Service(&'a pb::CoprocessorServiceCall),
    Nothing,
}

impl Action {
    pub(crate) fn index(&self) -> u32 {
        match self {
            Action::Like { index, .. } | Action::Empty { index } => *index,
            Action::Whole(action) => action.index(),
        }
    }
}

impl RegionAction {
    pub(crate) fn atomic(&self) -> bool {
        self.atomic.unwrap_or_default()
    }
}

impl MultiRequest {
    /// Decodes a request. Errors are those of the plain decoder, except for a request that takes too much memory.
    pub(crate) fn decode(bytes: &Bytes) -> Result<MultiRequest, RequestError> {
        let mut request = MultiRequest { bytes: bytes.clone(), ..MultiRequest::default() };
        // Positions are stored in four bytes, which is enough for every frame that the server accepts.
        if u32::try_from(bytes.len()).is_ok() && request.split(bytes).is_some() {
            return Ok(request);
        }
        size_limit::check(request.decoded, bytes.len())?;
        drop(request);
        let decoded = plain_size(bytes);
        size_limit::check(decoded, bytes.len())?;
        let request = pb::MultiRequest::decode(bytes.clone())?;
        let region_action = |one: pb::RegionAction| RegionAction {
            region: one.region,
            atomic: one.atomic,
            action: one.action.into_iter().map(|action| Action::Whole(Box::new(action))).collect(),
            condition: one.condition,
        };
        Ok(MultiRequest {
            region_action: request.region_action.into_iter().map(region_action).collect(),
            nonce_group: request.nonce_group,
            condition: request.condition,
            decoded,
            ..MultiRequest::default()
        })
    }

    /// Returns the size of the decoded request in bytes. The entries of actions that are alike do not count, because
    /// they take not much more than on the wire.
    pub(crate) fn decoded_size(&self) -> usize {
        self.decoded
    }

    /// Counts what is about to be decoded. Returns `None` if the request would take too much memory.
    fn charge(&mut self, bytes: usize) -> Option<()> {
        self.decoded += bytes;
        size_limit::check(self.decoded, self.bytes.len()).ok()
    }

    /// Decodes the request. Returns `None` if that is left to the plain decoder, or if the request is too large.
    fn split(&mut self, bytes: &Bytes) -> Option<()> {
        let mut fields = Fields::of(bytes);
        while let Some((number, _, value)) = fields.next().ok()? {
            match (number, value) {
                (1, Value::Bytes(range)) => {
                    self.charge(size_of::<RegionAction>())?;
                    let action = self.split_region(bytes, range)?;
                    self.region_action.push(action);
                }
                (2, Value::Number(group)) if self.nonce_group.is_none() => {
                    self.nonce_group = Some(group);
                }
                (3, Value::Bytes(range)) if self.condition.is_none() => {
                    self.condition = Some(pb::Condition::decode(bytes.slice(range)).ok()?);
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn split_region(&mut self, bytes: &Bytes, range: Range<usize>) -> Option<RegionAction> {
        let mut region = None;
        let (mut atomic, mut condition) = (None, None);
        let mut action = Vec::new();
        let mut fields = Fields::new(bytes, range.clone());
        while let Some((number, _, value)) = fields.next().ok()? {
            match (number, value) {
                (1, Value::Bytes(range)) if region.is_none() => {
                    region = Some(specifier(bytes, range)?);
                }
                (2, Value::Number(flag)) if atomic.is_none() => atomic = Some(flag != 0),
                (3, Value::Bytes(range)) => action.push(self.split_action(bytes, range)?),
                (4, Value::Bytes(range)) if condition.is_none() => {
                    condition = Some(pb::Condition::decode(bytes.slice(range)).ok()?);
                }
                _ => return None,
            }
        }
        Some(RegionAction { region: region?, atomic, action, condition })
    }

    fn split_action(&mut self, bytes: &Bytes, range: Range<usize>) -> Option<Action> {
        let mut fields = Fields::new(bytes, range.clone());
        let (mut index, mut message) = (None, None);
        while let Some((number, _, value)) = fields.next().ok()? {
            match (number, value) {
                (1, Value::Number(number)) if index.is_none() => index = Some(number as u32),
                (2 | 3, Value::Bytes(range)) if message.is_none() => message = Some((number, range)),
                _ => {
                    self.charge(size_of::<pb::Action>())?;
                    return pb::Action::decode(bytes.slice(range))
                        .ok()
                        .map(|one| Action::Whole(Box::new(one)));
                }
            }
        }
        let Some((number, message)) = message else {
            self.charge(EXCEPTION)?;
            return Some(Action::Empty { index: index.unwrap_or_default() });
        };
        let mut fields = Fields::new(bytes, message.clone());
        let Some((1, _, Value::Bytes(row))) = fields.next().ok()? else { return None };
        let rest = fields.rest();
        let is_alike = |alike: &Alike| {
            (number == 3) == matches!(alike.what, What::Get(_))
                && bytes[alike.rest.clone()] == bytes[rest.clone()]
        };
        if !self.alike.last().is_some_and(is_alike) {
            // If a message has two rows, the second one counts. Only the plain decoder handles that.
            while let Some((number, ..)) = fields.next().ok()? {
                if number == 1 {
                    return None;
                }
            }
            self.charge(size_of::<Alike>())?;
            let message = bytes.slice(message);
            let what = match number {
                3 => What::Get(pb::Get::decode(message).ok()?),
                _ => What::Mutation(pb::MutationProto::decode(message).ok()?),
            };
            self.alike.push(Alike { rest, what });
        }
        let row = row.start as u32..row.end as u32;
        Some(Action::Like { index: index.unwrap_or_default(), alike: self.alike.len() as u32 - 1, row })
    }

    /// Returns what an action of this request asks the region to do.
    pub(crate) fn kind_of<'a>(&'a self, action: &'a Action) -> ActionKind<'a> {
        match action {
            Action::Like { alike, row, .. } => {
                let row = self.bytes.slice(row.start as usize..row.end as usize);
                match &self.alike[*alike as usize].what {
                    What::Get(get) => ActionKind::Get(row, get, Some(*alike)),
                    What::Mutation(mutation) => ActionKind::Mutation(Some(row), mutation),
                }
            }
            Action::Empty { .. } => ActionKind::Nothing,
            Action::Whole(action) => match (&action.get, &action.service_call, &action.mutation) {
                (Some(get), ..) => ActionKind::Get(get.row.clone(), get, None),
                (_, Some(call), _) => ActionKind::Service(call),
                (_, _, Some(mutation)) => ActionKind::Mutation(mutation.row.clone(), mutation),
                (None, None, None) => ActionKind::Nothing,
            },
        }
    }

    /// Returns the row of an action that is a get; `None` for other actions.
    #[inline]
    pub(crate) fn row_of_get<'a>(&'a self, action: &'a Action) -> Option<&'a [u8]> {
        match action {
            Action::Like { alike, row, .. } => {
                let is_get = matches!(self.alike[*alike as usize].what, What::Get(_));
                is_get.then(|| &self.bytes[row.start as usize..row.end as usize])
            }
            Action::Empty { .. } => None,
            Action::Whole(action) => action.get.as_ref().map(|get| &get.row[..]),
        }
    }

    /// Returns the mutation of an action, with its row; `None` for other actions. A mutation without a row takes it
    /// from its first cell.
    pub(crate) fn mutation<'a>(
        &'a self,
        action: &'a Action,
    ) -> Option<(Option<Bytes>, &'a pb::MutationProto)> {
        match action {
            Action::Whole(action) => {
                action.mutation.as_ref().map(|mutation| (mutation.row.clone(), mutation))
            }
            like => match self.kind_of(like) {
                ActionKind::Mutation(row, mutation) => Some((row, mutation)),
                _ => None,
            },
        }
    }
}

/// Returns the memory that the plain decoder needs for the actions of a request, in bytes. The plain message and its
/// actions as they are used exist at the same time.
fn plain_size(bytes: &[u8]) -> usize {
    let mut actions = 0;
    let regions = size_limit::count(bytes, 0..bytes.len(), 1, |region| {
        actions += size_limit::count(bytes, region, 3, |_| ());
    });
    let region = size_of::<pb::RegionAction>() + size_of::<RegionAction>();
    regions * region + actions * (2 * size_of::<pb::Action>() + size_of::<Action>())
}

#[cfg(test)]
mod tests {
    use env::{WallTime, World};
    use pb::mutation_proto::MutationType;

    use super::super::samples::bend;
    use super::*;

    /// Returns the decoded request as the message that it came from.
    fn whole(request: &MultiRequest) -> pb::MultiRequest {
        let action = |action: &Action| {
            let mut one = match action {
                Action::Whole(whole) => return pb::Action::clone(whole),
                _ => pb::Action { index: Some(action.index()), ..Default::default() },
            };
            match request.kind_of(action) {
                ActionKind::Nothing => {}
                ActionKind::Get(row, get, _) => one.get = Some(pb::Get { row, ..get.clone() }),
                ActionKind::Mutation(row, mutation) => {
                    one.mutation = Some(pb::MutationProto { row, ..mutation.clone() });
                }
                other => panic!("{other:?} is like nothing"),
            }
            one
        };
        pb::MultiRequest {
            region_action: request
                .region_action
                .iter()
                .map(|one| pb::RegionAction {
                    region: one.region.clone(),
                    atomic: one.atomic,
                    action: one.action.iter().map(action).collect(),
                    condition: one.condition.clone(),
                })
                .collect(),
            nonce_group: request.nonce_group,
            condition: request.condition.clone(),
        }
    }

    fn some_request(any: &impl Fn(u64) -> u64) -> pb::MultiRequest {
        let bytes = |length: u64| Bytes::from(vec![b'a' + any(3) as u8; length as usize]);
        let column = || pb::Column { family: "f".into(), qualifier: vec![bytes(any(2))] };
        let get = || pb::Get {
            row: bytes(any(200)),
            column: (0..any(2)).map(|_| column()).collect(),
            max_versions: (any(3) == 0).then_some(2),
            existence_only: (any(9) == 0).then_some(true),
            ..Default::default()
        };
        let mutation = || pb::MutationProto {
            row: (any(9) > 0).then(|| bytes(any(40))),
            mutate_type: Some(if any(3) == 0 { MutationType::Delete } else { MutationType::Put } as i32),
            associated_cell_count: Some(any(2) as i32),
            nonce: (any(4) == 0).then(|| any(1 << 40)),
            ..Default::default()
        };
        let action = |index: u64| {
            let mut action = pb::Action { index: (any(9) > 0).then_some(index as u32), ..Default::default() };
            match any(12) {
                0 => {}
                1 => {
                    action.service_call =
                        Some(pb::CoprocessorServiceCall { row: bytes(3), ..Default::default() })
                }
                2 => (action.get, action.mutation) = (Some(get()), Some(mutation())),
                3..=6 => action.mutation = Some(mutation()),
                _ => action.get = Some(get()),
            }
            action
        };
        let condition = || pb::Condition { row: bytes(2), ..Default::default() };
        pb::MultiRequest {
            region_action: (0..any(3))
                .map(|_| pb::RegionAction {
                    region: pb::RegionSpecifier { r#type: any(3) as i32, value: bytes(any(20)) },
                    atomic: (any(4) == 0).then(|| any(2) == 0),
                    action: (0..any(9)).map(action).collect(),
                    condition: (any(9) == 0).then(condition),
                })
                .collect(),
            nonce_group: (any(2) == 0).then(|| any(u64::MAX)),
            condition: (any(9) == 0).then(condition),
        }
    }

    #[test]
    fn decoding_equals_the_plain_decoder_for_any_bytes() {
        let world = World::simulated(11, WallTime(0));
        let any = |below: u64| world.random() % below.max(1);
        let mut alike = 0;
        for _ in 0..4_000 {
            let mut bytes = some_request(&any).encode_to_vec();
            if any(2) == 0 {
                bend(&mut bytes, &any);
            }
            let bytes = Bytes::from(bytes);
            let expected = pb::MultiRequest::decode(bytes.clone()).map(|mut request| {
                // An action without an index and one with index 0 mean the same.
                let actions = request.region_action.iter_mut().flat_map(|region| &mut region.action);
                actions.for_each(|action| action.index = Some(action.index()));
                request
            });
            let found = MultiRequest::decode(&bytes).map(|request| {
                alike += request
                    .region_action
                    .iter()
                    .flat_map(|region| &region.action)
                    .fold(0, |sum, action| sum + usize::from(matches!(action, Action::Like { .. })));
                let mut whole = whole(&request);
                let actions = whole.region_action.iter_mut().flat_map(|region| &mut region.action);
                actions.for_each(|action| action.index = Some(action.index()));
                whole
            });
            assert_eq!(
                found.map_err(|error| error.to_string()),
                expected.map_err(|error| error.to_string()),
                "{}",
                bytes.escape_ascii()
            );
        }
        assert!(alike > 1_000, "{alike} were decoded the short way");
    }

    #[test]
    fn actions_that_differ_in_their_rows_are_decoded_once() {
        let get = |row: &'static str, versions| pb::Action {
            get: Some(pb::Get { row: row.into(), max_versions: Some(versions), ..Default::default() }),
            ..Default::default()
        };
        let request = pb::MultiRequest {
            region_action: vec![pb::RegionAction {
                region: pb::RegionSpecifier { r#type: 1, value: "r".into() },
                action: vec![get("a", 1), get("b", 1), get("c", 2), get("dd", 2)],
                ..Default::default()
            }],
            nonce_group: Some(u64::MAX),
            ..Default::default()
        };
        let request = MultiRequest::decode(&request.encode_to_vec().into()).expect("whole");
        assert_eq!((request.alike.len(), request.nonce_group), (2, Some(u64::MAX)), "a group is any number");
        let wishes = request.region_action[0].action.iter().map(|action| match request.kind_of(action) {
            ActionKind::Get(row, get, alike) => (row, get.max_versions(), alike),
            other => panic!("{other:?}"),
        });
        let expected = [("a", 1, 0), ("b", 1, 0), ("c", 2, 1), ("dd", 2, 1)];
        let expected = expected.map(|(row, versions, alike)| (Bytes::from(row), versions, Some(alike)));
        assert!(wishes.eq(expected));
    }

    /// Returns a request with one RegionAction that has `count` actions with these fields in turn.
    fn many(count: usize, fields: &[&[u8]], end: &[u8]) -> Bytes {
        let region = pb::RegionSpecifier { r#type: 1, value: "r".into() };
        let mut action = pb::RegionAction { region, ..Default::default() }.encode_to_vec();
        for fields in fields.iter().cycle().take(count) {
            action.extend_from_slice(&[0x1a, fields.len() as u8]);
            action.extend_from_slice(fields);
        }
        action.extend_from_slice(end);
        let mut request = vec![0x0a];
        prost::encoding::encode_varint(action.len() as u64, &mut request);
        request.extend_from_slice(&action);
        request.into()
    }

    /// An empty group, which only the plain decoder skips.
    const GROUP: &[u8] = b"\x7b\x7c";

    #[test]
    fn actions_that_ask_for_nothing_take_little_memory_and_are_refused_if_there_are_very_many() {
        let request = MultiRequest::decode(&many(1_000, &[b""], b"")).expect("some");
        let actions = &request.region_action[0].action;
        assert_eq!(actions.len(), 1_000);
        assert!(actions.iter().all(|action| matches!(action, Action::Empty { index: 0 })));
        for end in [&b""[..], GROUP] {
            let refused =
                MultiRequest::decode(&many(1_000_000, &[b""], end)).map(drop).expect_err("a million");
            assert!(matches!(refused, RequestError::Oversized(_)), "{refused}");
        }
        let few = MultiRequest::decode(&many(1_000, &[b""], GROUP)).expect("some");
        assert_eq!(few.region_action[0].action.len(), 1_000);
    }

    #[test]
    fn tiny_actions_that_are_not_alike_are_refused_if_there_are_very_many() {
        // A get of the row `a`, and the same with another limit of versions.
        let gets: [&[u8]; 2] = [b"\x1a\x03\x0a\x01a", b"\x1a\x05\x0a\x01a\x30\x02"];
        let request = MultiRequest::decode(&many(1_000, &gets, b"")).expect("some");
        assert_eq!(request.alike.len(), 1_000);
        assert!(request.decoded_size() >= 1_000 * size_of::<Alike>());
        let alike = MultiRequest::decode(&many(1_000_000, &gets[..1], b"")).expect("alike actions are small");
        assert!(alike.alike.len() == 1 && alike.decoded_size() < 4_096);
        // A get and a service call in one action are decoded as they are.
        let both: [&[u8]; 1] = [b"\x1a\x03\x0a\x01a\x22\x00"];
        for fields in [&gets[..], &both] {
            let refused =
                MultiRequest::decode(&many(1_000_000, fields, b"")).map(drop).expect_err("a million");
            assert!(matches!(refused, RequestError::Oversized(_)), "{refused}");
        }
    }
}
