//! Tests the client against servers that fail as each test says: which calls the client repeats, on which server, and
//! how often.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Action, Cluster, Error, Get, Increment, Options, Put, Registry, Scan, Table};
use env::sync::Mutex;
use env::{Runtime, World};
use proto::catalog::{RegionRow, TableState, table_state_column};
use proto::{RegionId, RegionInfo, ServerName, pb};
use rpc::client::Happened;
use rpc::{Answer, Call, Exception, Reply, Server, Service, Services, class};

/// A cluster of two servers with one table `t` of one region; the first server has hbase:meta.
#[derive(Default)]
struct Scene {
    servers: Vec<ServerName>,
    /// The index of the server that has the region.
    home: usize,
    /// The exceptions with which the next calls on the region fail.
    faults: VecDeque<Exception>,
    /// The exceptions with which the next lookups in hbase:meta fail.
    faults_of_lookups: VecDeque<Exception>,
    /// The exceptions with which the next actions of a batch fail, by row.
    faults_of_rows: Vec<(Vec<u8>, Exception)>,
    /// Whether hbase:meta says that the table is disabled.
    is_disabled: bool,
    /// Number of actions after which the reply to a batch is full, so that the others are refused; 0 for no limit.
    actions_max: usize,
    /// All calls: server, method, and the nonce of a mutation.
    calls: Vec<(usize, String, Option<u64>)>,
}

type State = Arc<Mutex<Scene>>;

fn region() -> RegionInfo {
    RegionInfo::new("t".parse().expect("a name"), Bytes::new(), Bytes::new(), RegionId(7)).expect("a region")
}

fn cell(row: &str, family: &[u8], qualifier: &[u8], value: impl Into<Bytes>) -> pb::Cell {
    pb::Cell {
        row: Some(Bytes::copy_from_slice(row.as_bytes())),
        family: Some(Bytes::copy_from_slice(family)),
        qualifier: Some(Bytes::copy_from_slice(qualifier)),
        timestamp: Some(1),
        cell_type: Some(pb::CellType::Put as i32),
        value: Some(value.into()),
        tags: None,
    }
}

struct Member {
    index: usize,
    state: State,
}

impl Service for Member {
    fn call(&self, call: Call) -> Answer {
        Answer::Now(self.answer(&call))
    }
}

impl Member {
    fn answer(&self, call: &Call) -> Result<Reply, Exception> {
        let mut state = self.state.lock();
        match &*call.method {
            "GetMetaRegionLocations" => {
                let meta_locations = vec![pb::RegionLocation {
                    region_info: (&RegionInfo::meta()).into(),
                    server_name: Some((&state.servers[0]).into()),
                    seq_num: 1,
                }];
                return Ok(Reply::of(&pb::GetMetaRegionLocationsResponse { meta_locations }));
            }
            "Scan" => {
                let request: pb::ScanRequest = call.decode()?;
                if request.region.as_ref().is_some_and(|region| region.value == "hbase:meta,,1") {
                    state.calls.push((self.index, "meta".to_owned(), None));
                    if let Some(fault) = state.faults_of_lookups.pop_front() {
                        return Err(fault);
                    }
                    return Ok(Reply::of(&meta_row(&state)));
                }
                self.enter(&mut state, call, None)?;
                return scan(&request);
            }
            _ => {}
        }
        match &*call.method {
            "Get" => {
                let request: pb::GetRequest = call.decode()?;
                if request.region.value == "hbase:meta,,1" {
                    state.calls.push((self.index, "state".to_owned(), None));
                    let now = if state.is_disabled { TableState::Disabled } else { TableState::Enabled };
                    let column = table_state_column(now);
                    let cell = vec![cell("t", &column.family, &column.qualifier, column.value)];
                    let result = Some(pb::Result { cell, ..pb::Result::default() });
                    return Ok(Reply::of(&pb::GetResponse { result }));
                }
                self.enter(&mut state, call, None)?;
                let value = format!("from {}", self.index);
                let result = pb::Result { cell: vec![cell("r", b"f", b"q", value)], ..pb::Result::default() };
                Ok(Reply::of(&pb::GetResponse { result: Some(result) }))
            }
            "Mutate" => {
                let request: pb::MutateRequest = call.decode()?;
                self.enter(&mut state, call, request.mutation.nonce)?;
                let result = Some(pb::Result::default());
                Ok(Reply::of(&pb::MutateResponse { result, processed: Some(true), metrics: None }))
            }
            "Multi" => {
                let request: pb::MultiRequest = call.decode()?;
                let mut answer = pb::MultiResponse::default();
                for part in &request.region_action {
                    let failed = self.enter(&mut state, call, None).err();
                    let actions_max = state.actions_max;
                    let one = |(number, action): (usize, &pb::Action)| {
                        let row = action.mutation.as_ref().map(|mutation| mutation.row().to_vec());
                        let exception =
                            state.faults_of_rows.iter().position(|(faulty, _)| Some(faulty) == row.as_ref());
                        let exception = exception.map(|at| pair(&state.faults_of_rows.remove(at).1));
                        let is_full = |at| at > 0 && number >= at;
                        let full = || Exception::new(class::MULTI_ACTION_RESULT_TOO_LARGE, "full");
                        let exception = exception.or_else(|| is_full(actions_max).then(|| pair(&full())));
                        let result = exception.is_none().then(pb::Result::default);
                        pb::ResultOrException {
                            index: action.index,
                            result,
                            exception,
                            ..pb::ResultOrException::default()
                        }
                    };
                    let result_or_exception = match failed {
                        None => part.action.iter().enumerate().map(one).collect(),
                        Some(_) => Vec::new(),
                    };
                    let exception = failed.as_ref().map(pair);
                    answer.region_action_result.push(pb::RegionActionResult {
                        result_or_exception,
                        exception,
                        processed: None,
                    });
                }
                Ok(Reply::of(&answer))
            }
            other => Err(Exception::unknown_method("ClientService", other)),
        }
    }

    /// Records a call. Returns the next planned fault, if there is one, or NotServingRegionException if the region is on
    /// another server.
    fn enter(&self, state: &mut Scene, call: &Call, nonce: Option<u64>) -> Result<(), Exception> {
        state.calls.push((self.index, call.method.to_string(), nonce));
        if let Some(fault) = state.faults.pop_front() {
            return Err(fault);
        }
        if state.home != self.index {
            return Err(Exception::not_serving_region("t is not here"));
        }
        Ok(())
    }
}

fn pair(exception: &Exception) -> pb::NameBytesPair {
    pb::NameBytesPair { name: exception.class.to_string(), value: Some(exception.text().into()) }
}

fn meta_row(state: &Scene) -> pb::ScanResponse {
    let row = RegionRow::open(region(), state.servers[state.home].clone(), 1);
    let key = String::from_utf8(row.key().to_vec()).expect("ascii");
    let cell =
        row.columns().into_iter().map(|column| cell(&key, &column.family, &column.qualifier, column.value));
    let result = pb::Result { cell: cell.collect(), ..pb::Result::default() };
    pb::ScanResponse {
        results: vec![result],
        more_results: Some(false),
        more_results_in_region: Some(false),
        ..pb::ScanResponse::default()
    }
}

/// Answers a scan of rows `r00` to `r19`, three with each call. The scanner's id is the number of the next row.
fn scan(request: &pb::ScanRequest) -> Result<Reply, Exception> {
    if request.close_scanner() {
        return Ok(Reply::of(&pb::ScanResponse::default()));
    }
    let from = match &request.scan {
        Some(scan) => {
            let row = String::from_utf8(scan.start_row().to_vec()).expect("ascii");
            let number = row.trim_start_matches('r').parse().unwrap_or(0u64);
            if scan.include_start_row() { number } else { number + 1 }
        }
        None => request.scanner_id() + request.next_call_seq() * 3,
    };
    let rows = (from..20).take(3);
    let results = rows.map(|row| pb::Result {
        cell: vec![cell(&format!("r{row:02}"), b"f", b"q", "v")],
        ..pb::Result::default()
    });
    Ok(Reply::of(&pb::ScanResponse {
        results: results.collect(),
        // The next call of this scanner has number 0.
        scanner_id: Some(from + 3),
        more_results: Some(true),
        more_results_in_region: Some(from + 3 < 20),
        ..pb::ScanResponse::default()
    }))
}

struct Fixture {
    state: State,
    servers: Vec<Option<Server>>,
    table: Table,
    runtime: Runtime,
}

impl Fixture {
    fn new() -> Fixture {
        let state = State::default();
        let mut servers = Vec::new();
        for index in 0..2 {
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let options = rpc::Options { threads: 1, ..rpc::Options::default() };
            let bound = Server::bind(World::real(), options, &[address]).expect("loopback");
            let port = bound.addresses()[0].port();
            state.lock().servers.push(ServerName { host: "127.0.0.1".to_owned(), port, start_code: 1 });
            let member = Arc::new(Member { index, state: Arc::clone(&state) });
            let services = Services::new()
                .with("ClientService", Arc::clone(&member) as Arc<dyn Service>)
                .with("ClientMetaService", member);
            servers.push(Some(bound.serve(services)));
        }
        let bootstrap = state.lock().servers[0].address();
        let options = Options {
            pause: Duration::from_millis(1),
            pause_overloaded: Duration::from_millis(1),
            retries: 4,
            ..Options::new(Registry::rpc([bootstrap]))
        };
        let table = Cluster::connect(World::real(), options).table("t").expect("a name");
        Fixture { state, servers, table, runtime: Runtime::start("client", 1).expect("a thread") }
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let _entered = self.runtime.handle().enter();
        self.runtime
            .handle()
            .block_on(async { env::timeout(Duration::from_secs(60), work).await.expect("within a minute") })
    }

    fn fail(&self, faults: impl IntoIterator<Item = Exception>) {
        self.state.lock().faults = faults.into_iter().collect();
    }

    /// Returns the calls since the last time, as `server method`.
    fn calls(&self) -> Vec<String> {
        let calls = std::mem::take(&mut self.state.lock().calls);
        calls.iter().map(|(server, method, _)| format!("{server} {method}")).collect()
    }

    async fn get(&self) -> Result<String, Error> {
        let row = self.table.get(Get::row("r")).await?;
        Ok(String::from_utf8_lossy(row.value("f", "q").unwrap_or_default()).into_owned())
    }
}

#[test]
fn a_location_is_learned_once_and_again_when_it_was_wrong() {
    let fixture = Fixture::new();
    fixture.run(async {
        assert_eq!(fixture.get().await.expect("answered"), "from 0");
        assert_eq!(fixture.get().await.expect("answered"), "from 0");
        assert_eq!(fixture.calls(), ["0 meta", "0 Get", "0 Get"]);
        fixture.state.lock().home = 1;
        assert_eq!(fixture.get().await.expect("answered"), "from 1");
        assert_eq!(fixture.calls(), ["0 Get", "0 state", "0 meta", "1 Get"]);
    });
}

#[test]
fn a_lookup_is_repeated_when_the_server_has_lost_its_scanner() {
    let fixture = Fixture::new();
    let lost = [class::SCANNER_RESET, class::UNKNOWN_SCANNER].map(|class| Exception::new(class, "closed"));
    fixture.state.lock().faults_of_lookups = lost.into();
    fixture.run(async {
        fixture.table.put(Put::row("r").set("f", "q", "v")).await.expect("written");
        assert_eq!(fixture.calls(), ["0 meta", "0 meta", "0 meta", "0 Mutate"]);
    });
}

/// As in HBase's client. A retry would be in vain for minutes.
#[test]
fn an_operation_on_a_disabled_table_fails_at_once() {
    let fixture = Fixture::new();
    fixture.run(async {
        assert_eq!(fixture.get().await.expect("enabled"), "from 0");
        fixture.calls();
        let closed = || Exception::not_serving_region("t is closed");
        let refuse = |is_disabled| {
            fixture.fail([closed()]);
            fixture.state.lock().is_disabled = is_disabled;
        };
        let is_refused = |error: Error| {
            assert_eq!((error.class(), error.happened()), (Some(class::TABLE_NOT_ENABLED), Happened::No))
        };
        refuse(true);
        is_refused(fixture.get().await.expect_err("disabled"));
        assert_eq!(fixture.calls(), ["0 Get", "0 state"]);
        refuse(true);
        is_refused(fixture.table.put(Put::row("r").set("f", "q", "v")).await.expect_err("disabled"));
        assert_eq!(fixture.calls(), ["0 meta", "0 Mutate", "0 state"]);
        refuse(true);
        is_refused(fixture.table.scan(Scan::new()).collect().await.expect_err("disabled"));
        assert_eq!(fixture.calls(), ["0 meta", "0 Scan", "0 state"]);
        refuse(true);
        let put = |row: &str| Action::from(Put::row(row.to_owned()).set("f", "q", "v"));
        for outcome in fixture.table.batch(vec![put("a"), put("b")]).await {
            is_refused(outcome.expect_err("disabled"));
        }
        assert_eq!(fixture.calls(), ["0 meta", "0 Multi", "0 state"]);
        // A write that may have been applied before the table was disabled stays open.
        fixture.fail([Exception::io("the sync of the log failed"), closed()]);
        let open = fixture.table.put(Put::row("r").set("f", "q", "v")).await.expect_err("disabled");
        assert_eq!((open.class(), open.happened()), (Some(class::TABLE_NOT_ENABLED), Happened::Maybe));
        fixture.calls();
        // The region of an enabled table is being moved.
        refuse(false);
        assert_eq!(fixture.get().await.expect("answered"), "from 0");
        assert_eq!(fixture.calls(), ["0 meta", "0 Get", "0 state", "0 meta", "0 Get"]);
    });
}

#[test]
fn a_region_that_moved_is_followed_without_asking_anybody() {
    let fixture = Fixture::new();
    fixture.run(async {
        fixture.get().await.expect("answered");
        fixture.calls();
        let to = fixture.state.lock().servers[1].clone();
        fixture.state.lock().home = 1;
        fixture.fail([Exception::region_moved(&to.host, to.port, 1, 5)]);
        assert_eq!(fixture.get().await.expect("answered"), "from 1");
        assert_eq!(fixture.calls(), ["0 Get", "1 Get"]);
    });
}

#[test]
fn a_busy_server_is_asked_again_and_a_refusal_is_final() {
    let fixture = Fixture::new();
    fixture.run(async {
        fixture.fail([Exception::region_too_busy("b"), Exception::new(class::CALL_QUEUE_TOO_BIG, "q")]);
        assert_eq!(fixture.get().await.expect("answered"), "from 0");
        assert_eq!(fixture.calls(), ["0 meta", "0 Get", "0 Get", "0 Get"]);
        fixture.fail([Exception::new(class::NO_SUCH_COLUMN_FAMILY, "f")]);
        let refused = fixture.get().await.expect_err("refused");
        assert_eq!(refused.class(), Some(class::NO_SUCH_COLUMN_FAMILY));
        assert_eq!(fixture.calls(), ["0 Get"]);
        fixture.fail((0..9).map(|_| Exception::region_too_busy("b")));
        let given_up = fixture.get().await.expect_err("busy for too long");
        assert!(matches!(given_up, Error::GivenUp { tries: 5, .. }), "{given_up}");
        assert_eq!(given_up.class(), Some(class::REGION_TOO_BUSY));
        assert_eq!(fixture.calls().len(), 5, "the first and four more");
    });
}

#[test]
fn a_refusal_after_an_attempt_that_may_have_happened_leaves_it_open() {
    let fixture = Fixture::new();
    fixture.run(async {
        let put = || Put::row("r").set("f", "q", "v");
        let refusal = || Exception::new(class::NO_SUCH_COLUMN_FAMILY, "f");
        fixture.fail([Exception::region_too_busy("b"), refusal()]);
        let refused = fixture.table.put(put()).await.expect_err("refused twice");
        assert_eq!((refused.class(), refused.happened()), (Some(class::NO_SUCH_COLUMN_FAMILY), Happened::No));
        fixture.fail([Exception::io("the sync of the log failed"), refusal()]);
        let open = fixture.table.put(put()).await.expect_err("refused the second time");
        assert_eq!((open.class(), open.happened()), (Some(class::NO_SUCH_COLUMN_FAMILY), Happened::Maybe));
        let rows = [("a", Exception::io("the sync of the log failed")), ("a", refusal()), ("b", refusal())];
        fixture.state.lock().faults_of_rows = rows.map(|(row, fault)| (row.into(), fault)).into();
        let batch = ["a", "b"].map(|row| Action::from(Put::row(row).set("f", "q", "v"))).to_vec();
        let outcomes = fixture.table.batch(batch).await;
        let happened = outcomes.into_iter().map(|outcome| outcome.expect_err("refused").happened());
        assert_eq!(happened.collect::<Vec<_>>(), [Happened::Maybe, Happened::No]);
    });
}

#[test]
fn a_second_try_carries_the_nonce_of_the_first() {
    let fixture = Fixture::new();
    fixture.run(async {
        fixture.fail([Exception::region_too_busy("b")]);
        fixture.table.increment(Increment::row("r").add("f", "q", 1)).await.expect("answered");
        fixture.table.increment(Increment::row("r").add("f", "q", 1)).await.expect("answered");
        fixture.table.put(Put::row("r").set("f", "q", "v")).await.expect("answered");
    });
    let state = fixture.state.lock();
    let nonces: Vec<_> = state.calls.iter().filter(|call| call.1 == "Mutate").map(|call| call.2).collect();
    assert_eq!(nonces.len(), 4);
    assert!(nonces[0].is_some() && nonces[0] == nonces[1], "the same operation: {nonces:?}");
    assert!(nonces[2].is_some() && nonces[2] != nonces[0], "another operation: {nonces:?}");
    assert_eq!(nonces[3], None, "a put may happen twice");
}

#[test]
fn a_server_that_is_gone_is_forgotten() {
    let mut fixture = Fixture::new();
    fixture.state.lock().home = 1;
    fixture.run(async { assert_eq!(fixture.get().await.expect("answered"), "from 1") });
    fixture.servers[1].take().expect("runs").stop();
    fixture.state.lock().home = 0;
    fixture.run(async { assert_eq!(fixture.get().await.expect("answered"), "from 0") });
}

#[test]
fn a_scan_gives_every_row_once_whatever_happens_to_its_scanner() {
    let fixture = Fixture::new();
    let expected: Vec<String> = (0..20).map(|row| format!("r{row:02}")).collect();
    let lost = |class| Exception::new(class, "lost");
    for class in [
        class::UNKNOWN_SCANNER,
        class::SCANNER_RESET,
        class::LEASE,
        class::OUT_OF_ORDER_SCANNER_NEXT,
        class::NOT_SERVING_REGION,
        class::REGION_SERVER_STOPPED,
        class::IO,
    ] {
        fixture.run(async {
            let mut scanner = fixture.table.scan(Scan::new());
            let mut rows = Vec::new();
            while let Some(row) = scanner.next().await.expect("goes on") {
                rows.push(String::from_utf8_lossy(row.key()).into_owned());
                if rows.len() % 6 == 0 {
                    // The second exception is the answer to the call that opens the next scanner, which also reads.
                    fixture.fail([lost(class), lost(class)]);
                }
            }
            assert_eq!(rows, expected, "{class}");
        });
    }
    fixture.fail([]);
    fixture.run(async {
        let limited = fixture.table.scan(Scan::new().from("r05").limit(4)).collect().await.expect("rows");
        let keys: Vec<_> = limited.iter().map(client::Row::key).collect();
        assert_eq!(keys, [b"r05", b"r06", b"r07", b"r08"]);
    });
}

#[test]
fn actions_of_a_batch_are_tried_again_one_by_one() {
    let fixture = Fixture::new();
    let put = |row: &'static str| Action::from(Put::row(row).set("f", "q", "v"));
    fixture.run(async {
        fixture.fail([Exception::region_too_busy("part")]);
        let outcomes = fixture.table.batch(vec![put("a"), put("b")]).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(fixture.calls(), ["0 meta", "0 Multi", "0 Multi"]);
        fixture.state.lock().home = 1;
        let outcomes = fixture.table.batch(vec![put("a"), put("b"), put("c")]).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(fixture.calls(), ["0 Multi", "0 state", "0 meta", "1 Multi"]);
        let refused = Exception::new(class::NO_SUCH_COLUMN_FAMILY, "f");
        fixture.state.lock().faults_of_rows =
            vec![(b"b".to_vec(), Exception::region_too_busy("row")), (b"c".to_vec(), refused)];
        let outcomes = fixture.table.batch(vec![put("a"), put("b"), put("c")]).await;
        assert!(outcomes[0].is_ok() && outcomes[1].is_ok(), "{outcomes:?}");
        let class = outcomes[2].as_ref().expect_err("refused").class();
        assert_eq!(class, Some(class::NO_SUCH_COLUMN_FAMILY), "{outcomes:?}");
        assert_eq!(
            fixture.calls(),
            ["1 Multi", "1 Multi"],
            "only actions that a retry may help are repeated"
        );
        let outcomes = fixture.table.batch(vec![put("a"), put("")]).await;
        assert!(outcomes[0].is_ok() && matches!(outcomes[1], Err(Error::Invalid(_))), "{outcomes:?}");
    });
}

#[test]
fn full_replies_are_no_failed_attempts_while_some_actions_end() {
    let fixture = Fixture::new();
    let gets = || (0..14).map(|_| Get::row("r")).collect::<Vec<_>>();
    fixture.run(async {
        // A batch may fail four times, and it needs seven replies.
        fixture.state.lock().actions_max = 2;
        fixture.table.get_all(gets()).await.expect("each reply has two rows");
        assert_eq!(fixture.calls().iter().filter(|call| *call == "0 Multi").count(), 7);
    });
}
