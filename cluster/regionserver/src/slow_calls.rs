//! The last slow calls and large responses, for the shell's `get_slowlog_responses` and `get_largelog_responses`.
//!
//! They are in a ring buffer of `hbase.regionserver.slowlog.ringbuffer.size` entries in memory. The entries are HBase's
//! own messages. They are made when a call turns out to be slow or large, so other calls cost nothing here.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use cell::string_binary;
use env::WallTime;
use env::sync::Mutex;
use prost::Message;
use proto::pb;
use proto::pb::slow_log_payload::Type;
use proto::pb::slow_log_response_request::{FilterByOperator, LogType};

use crate::RegionServer;
use crate::call_sample::CallKind;
use crate::tasks::{RunningCall, Subject};

/// Maximum size in bytes of a row or region name in an entry.
const NAME_MAX: usize = 1_024;

/// The ring buffer of slow calls and large responses.
#[derive(Debug, Default)]
pub(crate) struct SlowCalls {
    ring: Mutex<VecDeque<pb::SlowLogPayload>>,
}

/// Why a call was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowCallFacts {
    pub(crate) is_slow: bool,
    pub(crate) is_large: bool,
    pub(crate) took: Duration,
    pub(crate) answer_bytes: u64,
    /// When the call was answered.
    pub(crate) now: WallTime,
}

impl RegionServer {
    /// Returns the latest slow calls and large answers, at most `limit`, the newest first.
    pub fn slow_calls(&self, limit: usize) -> Vec<pb::SlowLogPayload> {
        self.slow_calls.latest(limit)
    }
}

impl SlowCalls {
    /// Adds an entry, and keeps at most `size` of them.
    pub(crate) fn note(&self, size: usize, entry: pb::SlowLogPayload) {
        let mut ring = self.ring.lock();
        ring.push_back(entry);
        while ring.len() > size {
            ring.pop_front();
        }
    }

    /// Forgets all entries.
    pub(crate) fn clear(&self) {
        self.ring.lock().clear();
    }

    /// Returns the latest entries of both kinds, the newest first.
    fn latest(&self, limit: usize) -> Vec<pb::SlowLogPayload> {
        self.ring.lock().iter().rev().take(limit).cloned().collect()
    }

    /// Returns the entries that a request selects, the newest first.
    pub(crate) fn find(&self, request: &pb::SlowLogResponseRequest) -> Vec<pb::SlowLogPayload> {
        let other = match request.log_type() {
            LogType::SlowLog => Type::LargeLog,
            LogType::LargeLog => Type::SlowLog,
        };
        let limit = usize::try_from(request.limit()).unwrap_or(usize::MAX);
        let ring = self.ring.lock();
        let found = ring.iter().rev().filter(|entry| entry.r#type() != other && is_selected(request, entry));
        found.take(limit).cloned().collect()
    }
}

/// Whether a request selects an entry. As in HBase, the request says whether all of its conditions must hold or only
/// one. Without conditions every entry is selected.
fn is_selected(request: &pb::SlowLogResponseRequest, entry: &pb::SlowLogPayload) -> bool {
    let region = entry.region_name();
    let conditions = [
        (request.region_name(), region == request.region_name()),
        (request.table_name(), region.starts_with(request.table_name())),
        (request.client_address(), entry.client_address == request.client_address()),
        (request.user_name(), entry.user_name == request.user_name()),
    ];
    let mut stated = conditions.iter().filter(|(text, _)| !text.is_empty()).map(|(_, holds)| *holds);
    let is_any_stated = conditions.iter().any(|(text, _)| !text.is_empty());
    match request.filter_by_operator() {
        _ if !is_any_stated => true,
        FilterByOperator::And => stated.all(|holds| holds),
        FilterByOperator::Or => stated.any(|holds| holds),
    }
}

/// Returns the entry for a call.
pub(crate) fn entry(call: &RunningCall, remarkable: SlowCallFacts) -> pb::SlowLogPayload {
    let SlowCallFacts { is_slow, is_large, took, answer_bytes, now } = remarkable;
    let took_ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
    let details = Details::of(call);
    let kind = match (is_slow, is_large) {
        (true, true) => Type::All,
        (true, false) => Type::SlowLog,
        _ => Type::LargeLog,
    };
    let traceparent = call.traceparent.as_ref().map(|parent| pb::NameBytesPair {
        name: rpc::TRACEPARENT.to_owned(),
        value: Some(parent.to_string().into()),
    });
    pb::SlowLogPayload {
        start_time: now.0.saturating_sub(took_ms),
        processing_time: i32::try_from(took_ms).unwrap_or(i32::MAX),
        // A call is begun by the thread that has read it, so it waits in no queue.
        queue_time: 0,
        response_size: i64::try_from(answer_bytes).unwrap_or(i64::MAX),
        client_address: call.connection.remote.to_string(),
        server_class: "HRegionServer".to_owned(),
        method_name: call.method.to_string(),
        call_details: format!("{0}({0}Request)", call.method),
        param: Some(details.text),
        user_name: call.connection.user.effective.clone().unwrap_or_default(),
        region_name: Some(details.region),
        multi_gets: Some(details.gets),
        multi_mutations: Some(details.mutations),
        multi_service_calls: Some(details.service_calls),
        r#type: kind as i32,
        connection_attribute: call.connection.attributes.iter().map(pair).collect(),
        // HBase's message has no field for the trace, so the trace is shown as an attribute.
        request_attribute: call.attributes.iter().map(pair).chain(traceparent).collect(),
        ..Default::default()
    }
}

fn pair((name, value): &(String, Bytes)) -> pb::NameBytesPair {
    pb::NameBytesPair { name: name.clone(), value: Some(value.clone()) }
}

/// The parts of the text that describes a request.
#[derive(Debug, Default)]
struct Details {
    region: String,
    text: String,
    gets: i32,
    mutations: i32,
    service_calls: i32,
}

impl Details {
    fn of(call: &RunningCall) -> Details {
        let param = match &call.subject {
            Subject::Region(name) => {
                let region = shown(name);
                return Details { text: format!("region= {region}"), region, ..Details::default() };
            }
            Subject::Param(param) => param,
        };
        let region = crate::call_sample::region_of(call.kind, param).map(shown).unwrap_or_default();
        let row = |row: &[u8]| format!("region= {region}, row= {}", shown(row));
        let mut details = Details::default();
        details.text = match call.kind {
            CallKind::Get => {
                pb::GetRequest::decode(param.clone()).map(|get| row(&get.get.row)).unwrap_or_default()
            }
            CallKind::Scan => {
                pb::ScanRequest::decode(param.clone()).map(|scan| of_scan(&scan)).unwrap_or_default()
            }
            CallKind::Multi => pb::MultiRequest::decode(param.clone())
                .map(|multi| details.count(&region, &multi))
                .unwrap_or_default(),
            CallKind::Other => String::new(),
            _ => pb::MutateRequest::decode(param.clone())
                .map(|mutate| row(mutate.mutation.row()))
                .unwrap_or_default(),
        };
        Details { region, ..details }
    }

    fn count(&mut self, region: &str, multi: &pb::MultiRequest) -> String {
        let mut first = None;
        for action in multi.region_action.iter().flat_map(|of_region| &of_region.action) {
            self.gets += i32::from(action.get.is_some());
            self.mutations += i32::from(action.mutation.is_some());
            self.service_calls += i32::from(action.service_call.is_some());
            let get = action.get.as_ref().map(|get| &get.row);
            let mutation = action.mutation.as_ref().and_then(|mutation| mutation.row.as_ref());
            first = first.or(get).or(mutation);
        }
        let first = first.map(|row| shown(row)).unwrap_or_default();
        let actions = self.gets + self.mutations + self.service_calls;
        format!("region= {region}, for {actions} action(s) and 1st row key={first}")
    }
}

fn of_scan(request: &pb::ScanRequest) -> String {
    match &request.scan {
        Some(scan) => format!(
            "start= {}, stop= {}, number_of_rows= {}",
            shown(scan.start_row()),
            shown(scan.stop_row()),
            request.number_of_rows()
        ),
        None => {
            format!("scanner_id= {}, number_of_rows= {}", request.scanner_id(), request.number_of_rows())
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    string_binary(&bytes[..bytes.len().min(NAME_MAX)]).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Type, region: &str, client: &str, user: &str) -> pb::SlowLogPayload {
        pb::SlowLogPayload {
            r#type: kind as i32,
            region_name: Some(region.to_owned()),
            client_address: client.to_owned(),
            user_name: user.to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn entries_are_selected_as_by_hbase_and_the_newest_comes_first() {
        let calls = SlowCalls::default();
        calls.note(4, entry(Type::SlowLog, "gone", "c", "u"));
        calls.note(4, entry(Type::SlowLog, "t,,1.a.", "c1", "anna"));
        calls.note(4, entry(Type::LargeLog, "t,,1.b.", "c1", "bert"));
        calls.note(4, entry(Type::All, "u,,1.c.", "c2", "anna"));
        calls.note(4, entry(Type::SlowLog, "", "c2", "bert"));
        let found = |change: &dyn Fn(&mut pb::SlowLogResponseRequest)| {
            let mut request = pb::SlowLogResponseRequest::default();
            change(&mut request);
            let found = calls.find(&request).into_iter();
            found.map(|entry| entry.region_name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(&|_| {}), ["", "u,,1.c.", "t,,1.a."]);
        assert_eq!(
            found(&|request| request.log_type = Some(LogType::LargeLog as i32)),
            ["u,,1.c.", "t,,1.b."]
        );
        assert_eq!(found(&|request| request.limit = Some(1)), [""]);
        assert_eq!(found(&|request| request.table_name = Some("t".to_owned())), ["t,,1.a."]);
        assert_eq!(found(&|request| request.region_name = Some("u,,1.c.".to_owned())), ["u,,1.c."]);
        let anna_or_c2 = |request: &mut pb::SlowLogResponseRequest| {
            request.user_name = Some("anna".to_owned());
            request.client_address = Some("c2".to_owned());
        };
        assert_eq!(found(&anna_or_c2), ["", "u,,1.c.", "t,,1.a."]);
        let anna_and_c2 = |request: &mut pb::SlowLogResponseRequest| {
            anna_or_c2(request);
            request.filter_by_operator = Some(FilterByOperator::And as i32);
        };
        assert_eq!(found(&anna_and_c2), ["u,,1.c."]);
        calls.clear();
        assert!(found(&|_| {}).is_empty());
    }
}
