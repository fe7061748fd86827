//! Classifies calls, and passes samples of them to an observer, which finds regions and rows with much load.
//!
//! One call in [`SAMPLED_ONE_IN`] is passed on, with its region, its rows and its duration. Kind, region and rows are
//! read from the encoded parameter without decoding it.

use std::cell::Cell;
use std::time::Duration;

use proto::wire::{Fields, Value};
use rpc::ConnectionInfo;
use telemetry::{Exposition, Histogram, Spread};

/// Of this many calls, one on average is passed to the observer.
pub const SAMPLED_ONE_IN: u32 = 16;
/// Maximum number of rows of one batch that are passed to the observer.
const ROWS_MAX: usize = 16;

/// The kind of a call of ClientService.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// Get.
    Get,
    /// Scan: a call that opens a scanner or continues with it.
    Scan,
    /// A batch.
    Multi,
    /// A single put.
    Put,
    /// A single delete.
    Delete,
    /// A single increment.
    Increment,
    /// A single append.
    Append,
    /// A single mutation under a condition.
    CheckAndMutate,
    /// Any other call.
    Other,
}

impl CallKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [CallKind; 9] = [
        CallKind::Get,
        CallKind::Scan,
        CallKind::Multi,
        CallKind::Put,
        CallKind::Delete,
        CallKind::Increment,
        CallKind::Append,
        CallKind::CheckAndMutate,
        CallKind::Other,
    ];

    /// Returns the kind of a call by its method and its encoded parameter; [`CallKind::Other`] for a method that
    /// neither reads nor writes rows.
    pub fn of(method: &str, param: &[u8]) -> CallKind {
        match method {
            "Get" => CallKind::Get,
            "Scan" => CallKind::Scan,
            "Multi" => CallKind::Multi,
            "Mutate" => mutation_kind(param),
            _ => CallKind::Other,
        }
    }

    /// Returns the name of the kind in metrics.
    pub fn name(self) -> &'static str {
        match self {
            CallKind::Get => "get",
            CallKind::Scan => "scan",
            CallKind::Multi => "multi",
            CallKind::Put => "put",
            CallKind::Delete => "delete",
            CallKind::Increment => "increment",
            CallKind::Append => "append",
            CallKind::CheckAndMutate => "check_and_mutate",
            CallKind::Other => "other",
        }
    }

    /// Returns the RPC method of the kind.
    fn method(self) -> &'static str {
        match self {
            CallKind::Get => "Get",
            CallKind::Scan => "Scan",
            CallKind::Multi => "Multi",
            CallKind::Other => "other",
            _ => "Mutate",
        }
    }

    /// Whether a call of this kind changes rows. A batch counts as a change.
    pub fn is_write(self) -> bool {
        !matches!(self, CallKind::Get | CallKind::Scan | CallKind::Other)
    }
}

/// Durations of calls by kind, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct CallTimes([Histogram; CallKind::ALL.len()]);

impl CallTimes {
    pub(crate) fn record(&self, kind: CallKind, took: Duration) {
        self.0[kind as usize].record_time(took);
    }

    pub(crate) fn show(&self, out: &mut Exposition) {
        let help = "Times from a request's last byte to its answer, by method.";
        for method in ["Get", "Mutate", "Multi", "Scan", "other"] {
            let of_method = CallKind::ALL.into_iter().filter(|kind| kind.method() == method);
            let times = of_method.map(|kind| self.0[kind as usize].spread()).reduce(Spread::with);
            let times = times.expect("every method has a kind");
            out.spread_of_times("hbase_regionserver_call_seconds", help, &[("method", method)], times);
        }
        let help = "The same of single mutations, by kind.";
        for kind in CallKind::ALL.into_iter().filter(|kind| kind.method() == "Mutate") {
            let labels = [("kind", kind.name())];
            out.times("hbase_regionserver_mutate_seconds", help, &labels, &self.0[kind as usize]);
        }
    }
}

/// A call that was sampled.
#[derive(Clone, Copy, Debug)]
pub struct CallSample<'a> {
    /// What the call does.
    pub kind: CallKind,
    /// The full or encoded name of the region that the call names.
    pub region: &'a [u8],
    /// The row that the sample is about; for a scan the start row.
    pub row: &'a [u8],
    /// Time from the last byte of the request to the response; for a batch, the time of the whole batch.
    pub took: Duration,
    /// Number of rows of the call for which this sample stands.
    pub weight: u32,
    /// Whether this is the first row of its call, so that calls can be counted.
    pub is_first: bool,
    /// Whether the call opens a scan over a whole table.
    pub is_full_scan: bool,
    /// The connection of the caller.
    pub connection: &'a ConnectionInfo,
}

/// Receives samples of calls, on the thread that has answered them.
pub trait CallObserver: Send + Sync {
    /// Receives one row of a sampled call.
    fn sampled(&self, sample: &CallSample<'_>);
}

/// Returns whether the current call is sampled. Each thread uses its own random sequence, so that clients that call
/// periodically are sampled evenly.
pub(crate) fn is_sampled() -> bool {
    thread_local! {
        static STATE: Cell<u32> = const { Cell::new(0x9E37_79B9) };
    }
    STATE.with(|state| {
        let next = state.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.set(next);
        (next >> 16).is_multiple_of(SAMPLED_ONE_IN)
    })
}

/// Passes the rows of a call to `observer`, of a batch at most [`ROWS_MAX`]. A call that continues a scan has no row,
/// because the row was passed on when the scan was opened. A call of [`CallKind::Other`] has none either.
pub(crate) fn show(
    observer: &dyn CallObserver,
    connection: &ConnectionInfo,
    kind: CallKind,
    param: &[u8],
    took: Duration,
) {
    let is_full_scan = kind == CallKind::Scan && is_full_scan(param);
    let mut is_first = true;
    let mut show = |region: &[u8], row: &[u8], weight: u32| {
        observer.sampled(&CallSample { kind, region, row, took, weight, is_first, is_full_scan, connection });
        is_first = false;
    };
    match kind {
        CallKind::Other => {}
        CallKind::Multi => {
            let actions = || {
                let of_regions = fields(param).filter(|field| field.number == 1);
                of_regions.flat_map(|of_region| {
                    let actions = fields(of_region.bytes).filter(|field| field.number == 3);
                    actions.map(move |action| (of_region.bytes, action.bytes))
                })
            };
            // Of a large batch some rows are chosen at equal distances. Each stands for the rows up to the next one.
            let stride = actions().count().div_ceil(ROWS_MAX).max(1);
            for (of_region, action) in actions().step_by(stride) {
                let operation = fields(action).find(|field| matches!(field.number, 2 | 3));
                let row = operation.and_then(|operation| bytes_of(operation.bytes, 1));
                if let (Some(region), Some(row)) = (region_name(of_region), row) {
                    show(region, row, u32::try_from(stride).unwrap_or(u32::MAX));
                }
            }
        }
        _ => {
            let row = if kind == CallKind::Scan { 3 } else { 1 };
            if let (Some(region), Some(operation)) = (region_name(param), bytes_of(param, 2)) {
                show(region, bytes_of(operation, row).unwrap_or_default(), 1);
            }
        }
    }
}

/// Whether the call opens a scan over a whole table, without start and stop row.
pub(crate) fn is_full_scan(param: &[u8]) -> bool {
    bytes_of(param, 2).is_some_and(|scan| {
        let empty = |number| bytes_of(scan, number).is_none_or(<[u8]>::is_empty);
        empty(3) && empty(4)
    })
}

fn mutation_kind(param: &[u8]) -> CallKind {
    let mut kind = CallKind::Other;
    for field in fields(param) {
        match field.number {
            2 => {
                let of_mutation = fields(field.bytes).find(|field| field.number == 2);
                kind = match of_mutation.map(|field| field.value) {
                    Some(0) => CallKind::Append,
                    Some(1) => CallKind::Increment,
                    Some(2) => CallKind::Put,
                    Some(3) => CallKind::Delete,
                    _ => CallKind::Other,
                };
            }
            3 => return CallKind::CheckAndMutate,
            _ => {}
        }
    }
    kind
}

/// Returns the name of a call's region; for a batch, that of its first region. `None` if the parameter names no region.
pub(crate) fn region_of(kind: CallKind, param: &[u8]) -> Option<&[u8]> {
    match kind {
        CallKind::Multi => region_name(bytes_of(param, 1)?),
        _ => region_name(param),
    }
}

/// Returns the name in the RegionSpecifier, which is field 1 of a request for one region; `None` if it is missing or
/// cannot be read.
fn region_name(param: &[u8]) -> Option<&[u8]> {
    bytes_of(bytes_of(param, 1)?, 2)
}

fn bytes_of(message: &[u8], number: u64) -> Option<&[u8]> {
    fields(message).find(|field| field.number == number).map(|field| field.bytes)
}

/// A field of an encoded message.
struct Field<'a> {
    number: u64,
    /// The value of a number field.
    value: u64,
    /// The content of a bytes or message field.
    bytes: &'a [u8],
}

/// Returns the fields of an encoded message, up to the first that cannot be read.
fn fields(message: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let mut fields = Fields::of(message);
    std::iter::from_fn(move || {
        let (number, _, value) = fields.next().ok()??;
        Some(match value {
            Value::Number(value) => Field { number, value, bytes: &[] },
            Value::Fixed(range) | Value::Bytes(range) => Field { number, value: 0, bytes: &message[range] },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::sync::Mutex;
    use prost::Message;
    use proto::pb;

    fn region() -> pb::RegionSpecifier {
        pb::RegionSpecifier { r#type: 1, value: "t,,1.e.".into() }
    }

    fn mutation(kind: i32, row: &'static str) -> pb::MutationProto {
        pb::MutationProto { row: Some(row.into()), mutate_type: Some(kind), ..Default::default() }
    }

    fn mutate(kind: i32) -> pb::MutateRequest {
        pb::MutateRequest { region: region(), mutation: mutation(kind, "r"), ..Default::default() }
    }

    #[derive(Default)]
    struct Noted(Mutex<Vec<(CallKind, String, String, bool)>>);

    impl CallObserver for Noted {
        fn sampled(&self, sample: &CallSample<'_>) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let noted = (sample.kind, text(sample.region), text(sample.row), sample.is_first);
            self.0.lock().push(noted);
        }
    }

    #[test]
    fn kinds_of_mutations_are_read_from_their_bytes() {
        for (number, kind) in
            [(0, CallKind::Append), (1, CallKind::Increment), (2, CallKind::Put), (3, CallKind::Delete)]
        {
            assert_eq!(CallKind::of("Mutate", &mutate(number).encode_to_vec()), kind);
        }
        let mut checked = mutate(2);
        checked.condition = Some(pb::Condition { row: "r".into(), ..Default::default() });
        assert_eq!(CallKind::of("Mutate", &checked.encode_to_vec()), CallKind::CheckAndMutate);
        assert_eq!(CallKind::of("Mutate", b"\xff\xff\xff"), CallKind::Other);
        assert_eq!(CallKind::of("Get", b""), CallKind::Get);
    }

    #[test]
    fn rows_of_all_kinds_are_shown_with_their_region() {
        let noted = Noted::default();
        let took = Duration::from_millis(1);
        let connection = ConnectionInfo {
            user: rpc::User::default(),
            service: "ClientService".to_owned(),
            codec: rpc::Codec::None,
            compressor: rpc::Compressor::None,
            version: None,
            remote: ([127, 0, 0, 1], 7).into(),
            attributes: Vec::new(),
            answers: rpc::Answers::new(1 << 20),
        };
        let get = pb::GetRequest { region: region(), get: pb::Get { row: "g".into(), ..Default::default() } };
        show(&noted, &connection, CallKind::Get, &get.encode_to_vec(), took);
        show(&noted, &connection, CallKind::Put, &mutate(2).encode_to_vec(), took);
        let scan = pb::ScanRequest {
            region: Some(region()),
            scan: Some(pb::Scan { start_row: Some("s".into()), ..Default::default() }),
            ..Default::default()
        };
        assert!(!is_full_scan(&scan.encode_to_vec()));
        show(&noted, &connection, CallKind::Scan, &scan.encode_to_vec(), took);
        let step = pb::ScanRequest { scanner_id: Some(7), ..Default::default() };
        show(&noted, &connection, CallKind::Scan, &step.encode_to_vec(), took);
        let action = |row| pb::Action { mutation: Some(mutation(2, row)), ..Default::default() };
        let of_region = pb::RegionAction {
            region: region(),
            action: vec![action("a"), action("b")],
            ..Default::default()
        };
        let multi = pb::MultiRequest { region_action: vec![of_region], ..Default::default() };
        show(&noted, &connection, CallKind::Multi, &multi.encode_to_vec(), took);
        let expected = [
            (CallKind::Get, "g", true),
            (CallKind::Put, "r", true),
            (CallKind::Scan, "s", true),
            (CallKind::Multi, "a", true),
            (CallKind::Multi, "b", false),
        ];
        let expected = expected.map(|(kind, row, first)| (kind, "t,,1.e.".to_owned(), row.to_owned(), first));
        assert_eq!(*noted.0.lock(), expected);
    }

    #[test]
    fn one_call_in_sixteen_is_sampled_whatever_the_rhythm() {
        let taken: Vec<bool> = (0..64_000).map(|_| is_sampled()).collect();
        for phase in 0..4 {
            let count = taken.iter().skip(phase).step_by(4).filter(|taken| **taken).count();
            assert!((800..1_200).contains(&count), "{count} of 16000");
        }
    }

    #[test]
    fn a_scan_without_start_and_end_is_a_full_scan() {
        let scan =
            pb::ScanRequest { region: Some(region()), scan: Some(pb::Scan::default()), ..Default::default() };
        assert!(is_full_scan(&scan.encode_to_vec()));
        let step = pb::ScanRequest { scanner_id: Some(7), ..Default::default() };
        assert!(!is_full_scan(&step.encode_to_vec()));
    }
}
