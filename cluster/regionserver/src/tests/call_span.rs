//! Tests of spans of traced calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::sync::Mutex;
use proto::pb;
use rpc::{Call, TraceParent};

use super::bench::{self, Bench};
use crate::{CallSpan, SpanObserver};

#[derive(Default)]
struct Spans(Mutex<Vec<CallSpan>>);

impl SpanObserver for Spans {
    fn ended(&self, span: CallSpan) {
        self.0.lock().push(span);
    }
}

fn traced(mut call: Call, flags: &str) -> Call {
    let text = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
    call.traceparent = TraceParent::parse(text.as_bytes()).map(Box::new);
    call.size = 40;
    call
}

#[test]
fn a_call_whose_client_records_its_trace_has_a_span() {
    let bench = Bench::new();
    let spans = Arc::new(Spans::default());
    let get = |row, region| pb::GetRequest { region, get: bench::get(row) };
    let call = |row, region| bench.call("Get", &get(row, region), Bytes::new());
    let region = bench.region_of(b"row");
    bench.send(traced(call("row", region.clone()), "01")).expect("nobody observes yet");
    bench.server.observe_spans(Arc::clone(&spans) as Arc<dyn SpanObserver>);

    bench.send(call("row", region.clone())).expect("answered");
    bench.send(traced(call("row", region.clone()), "00")).expect("answered");
    assert_eq!(spans.0.lock().len(), 0, "these clients record no trace");

    let get = traced(call("row", region.clone()), "01");
    bench.world.advance(Duration::from_millis(1_500));
    bench.send(get).expect("answered");
    let put = pb::MutateRequest {
        region,
        mutation: bench::mutation(pb::mutation_proto::MutationType::Put, "row", "f:x", "1"),
        ..Default::default()
    };
    bench.send(traced(bench.call("Mutate", &put, Bytes::new()), "01")).expect("on the disk");
    let elsewhere = pb::RegionSpecifier {
        r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
        value: Bytes::from_static(b"other,,1.00000000000000000000000000000000."),
    };
    let refusal = bench.send(traced(call("row", elsewhere), "01")).expect_err("not served here");

    let spans = spans.0.lock();
    let [get, put, refused] = &spans[..] else { panic!("three spans expected: {spans:?}") };
    assert_eq!((&*get.service, &*get.method, &*put.method), ("ClientService", "Get", "Mutate"));
    assert_eq!(get.parent.span_id(), "00f067aa0ba902b7");
    assert_eq!(get.took, Duration::from_millis(1_500));
    assert_eq!(get.started.0, bench.world.now().0 - 1_500);
    assert!(get.region.starts_with("t,") && get.region == put.region, "{get:?} {put:?}");
    assert!(get.request_bytes == 40 && get.response_bytes > 0, "{get:?}");
    assert_eq!(put.failure, None);
    assert_eq!(refused.failure, Some((refusal.class.to_string(), refusal.message)));
}
