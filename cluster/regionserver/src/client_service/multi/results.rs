//! The results of a Multi's actions, and the encoding of its reply.
//!
//! Most entries have nothing, or only the number of their cells in the reply's cell block. They take a few bytes in
//! memory and are encoded directly. Other entries have the protobuf message.

use prost::Message;
use prost::encoding::encode_varint;
use proto::pb;
use rpc::Exception;

/// The result of one action.
#[derive(Debug)]
pub(super) enum Entry {
    /// The action returned this number of cells of the cell block.
    Cells {
        index: u32,
        count: u32,
    },
    /// The action succeeded and returns nothing.
    Nothing {
        index: u32,
    },
    Whole(Box<pb::ResultOrException>),
}

/// The result of a RegionAction.
#[derive(Debug)]
pub(super) enum RegionResult {
    Entries(Vec<Entry>),
    Whole(pb::RegionActionResult),
}

impl Entry {
    /// Returns the entry for the result of a get, an increment or an append.
    pub(super) fn of(index: u32, result: pb::Result) -> Entry {
        if result == pb::Result::default() {
            return Entry::Nothing { index };
        }
        match result.associated_cell_count.and_then(|count| u32::try_from(count).ok()) {
            Some(count)
                if result
                    == (pb::Result {
                        associated_cell_count: result.associated_cell_count,
                        ..Default::default()
                    }) =>
            {
                Entry::Cells { index, count }
            }
            _ => Entry::whole(pb::ResultOrException {
                index: Some(index),
                result: Some(result),
                ..Default::default()
            }),
        }
    }

    /// Returns the entry for the result of a coprocessor service.
    pub(super) fn of_service(index: u32, value: pb::NameBytesPair) -> Entry {
        let service_result = Some(pb::CoprocessorServiceResult { value: Some(value) });
        Entry::whole(pb::ResultOrException { index: Some(index), service_result, ..Default::default() })
    }

    pub(super) fn failed(index: u32, exception: &Exception) -> Entry {
        let exception = Some(pair(exception));
        Entry::whole(pb::ResultOrException { index: Some(index), exception, ..Default::default() })
    }

    fn whole(entry: pb::ResultOrException) -> Entry {
        Entry::Whole(Box::new(entry))
    }

    /// Replaces the result of the action by an exception.
    pub(super) fn fail(&mut self, exception: &Exception) {
        let index = match self {
            Entry::Cells { index, .. } | Entry::Nothing { index } => *index,
            Entry::Whole(entry) => entry.index(),
        };
        *self = Entry::failed(index, exception);
    }

    /// Appends the entry to `out` as field 1 of its RegionActionResult.
    fn encode(&self, out: &mut Vec<u8>) {
        let (index, result) = match self {
            Entry::Whole(entry) => return prost::encoding::message::encode(1, &**entry, out),
            Entry::Cells { index, count } => (*index, Some(*count)),
            Entry::Nothing { index } => (*index, None),
        };
        // Each of the two lengths is below 128, so it takes one byte.
        out.extend_from_slice(&[0x0a, 0]);
        let entry = out.len();
        out.push(0x08);
        encode_varint(u64::from(index), out);
        out.extend_from_slice(&[0x12, 0]);
        let from = out.len();
        if let Some(count) = result {
            out.push(0x10);
            encode_varint(u64::from(count), out);
        }
        out[from - 1] = (out.len() - from) as u8;
        out[entry - 1] = (out.len() - entry) as u8;
    }
}

impl RegionResult {
    /// Returns the result of a RegionAction that failed as a whole.
    pub(super) fn failed(exception: &Exception) -> RegionResult {
        RegionResult::Whole(failed(exception))
    }

    /// Replaces the entries with these indices by exceptions, or all entries if no index is given.
    pub(super) fn fail(&mut self, entries: &[usize], exception: &Exception) {
        match self {
            _ if entries.is_empty() => *self = RegionResult::failed(exception),
            RegionResult::Entries(all) => entries.iter().for_each(|entry| all[*entry].fail(exception)),
            RegionResult::Whole(result) => {
                for entry in entries {
                    let entry = &mut result.result_or_exception[*entry];
                    (entry.result, entry.exception) = (None, Some(pair(exception)));
                }
            }
        }
    }
}

/// Returns the message of a RegionAction that failed as a whole.
pub(super) fn failed(exception: &Exception) -> pb::RegionActionResult {
    pb::RegionActionResult { exception: Some(pair(exception)), ..Default::default() }
}

/// Returns an exception in the form in which a reply contains it.
fn pair(exception: &Exception) -> pb::NameBytesPair {
    pb::NameBytesPair { name: exception.class.to_string(), value: Some(exception.text().into()) }
}

/// Encodes the whole reply, a MultiResponse.
pub(super) fn encode(results: &[RegionResult], processed: Option<bool>) -> Vec<u8> {
    let entries = |result: &RegionResult| match result {
        RegionResult::Entries(entries) => entries.len(),
        RegionResult::Whole(_) => 1,
    };
    let mut out = Vec::with_capacity(16 * results.iter().map(entries).sum::<usize>());
    let mut one = Vec::new();
    for result in results {
        match result {
            RegionResult::Whole(result) => prost::encoding::message::encode(1, result, &mut out),
            RegionResult::Entries(entries) => {
                one.clear();
                entries.iter().for_each(|entry| entry.encode(&mut one));
                prost::encoding::bytes::encode(1, &one, &mut out);
            }
        }
    }
    let rest = pb::MultiResponse { processed, ..Default::default() };
    rest.encode(&mut out).expect("a growing buffer takes any message");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_equals_its_protobuf_message() {
        let exception = Exception::do_not_retry("no");
        let result = |count| pb::Result { associated_cell_count: Some(count), ..Default::default() };
        let exists = pb::Result { exists: Some(true), ..Default::default() };
        let mut lost = Entry::of(9, result(3));
        lost.fail(&exception);
        let entries = || {
            vec![
                Entry::of(0, result(0)),
                Entry::of(u32::MAX, result(i32::MAX)),
                Entry::of(300, pb::Result::default()),
                Entry::of(5, exists.clone()),
                Entry::failed(9, &exception),
            ]
        };
        let whole = |index, result: Option<pb::Result>| pb::ResultOrException {
            exception: result.is_none().then(|| pair(&exception)),
            index: Some(index),
            result,
            ..Default::default()
        };
        let expected = pb::RegionActionResult {
            result_or_exception: vec![
                whole(0, Some(result(0))),
                whole(u32::MAX, Some(result(i32::MAX))),
                whole(300, Some(pb::Result::default())),
                whole(5, Some(exists.clone())),
                whole(9, None),
            ],
            ..Default::default()
        };
        let mut results = vec![RegionResult::Entries(entries()), RegionResult::failed(&exception)];
        results.push(RegionResult::Entries(vec![Entry::of(9, result(3))]));
        results[2].fail(&[0], &exception);
        let lost = pb::RegionActionResult { result_or_exception: vec![whole(9, None)], ..Default::default() };
        for processed in [None, Some(true)] {
            let expected = pb::MultiResponse {
                region_action_result: vec![expected.clone(), failed(&exception), lost.clone()],
                processed,
                region_statistics: None,
            };
            let found = pb::MultiResponse::decode(&encode(&results, processed)[..]).expect("a message");
            assert_eq!(found, expected);
            assert_eq!(encode(&results, processed), expected.encode_to_vec());
        }
        results[0].fail(&[], &exception);
        assert!(matches!(&results[0], RegionResult::Whole(result) if result.exception.is_some()));
    }
}
