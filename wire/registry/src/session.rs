//! The protocol of one ZooKeeper connection, without its socket: from each received frame it produces the frames to
//! send.
//!
//! ```text
//!  frame      length 4B · record
//!  request    xid 4B · type 4B · body             reply    xid 4B · zxid 8B · error 4B · body if no error
//!  event      xid -1 · zxid -1 · error 0 · type 4B · state 4B · path
//! ```
//!
//! A watch is a path, a kind, and the last zxid at the time when it was set. The watch fires when the node's own zxids
//! show a later change. So the tree needs no list of watchers. Watches that a client restores when it reconnects are
//! handled in the same way.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::jute::{Malformed, Reader, Writer};
use crate::tree::{Stat, Tree, is_path};

/// ZooKeeper's error codes.
pub(crate) mod code {
    pub(crate) const UNIMPLEMENTED: i32 = -6;
    pub(crate) const BAD_ARGUMENTS: i32 = -8;
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
    pub(crate) const AUTH_FAILED: i32 = -115;
    pub(crate) const NO_WATCHER: i32 = -121;
}

/// ZooKeeper's operation codes.
pub(crate) mod op {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const GET_ACL: i32 = 6;
    pub(crate) const SET_ACL: i32 = 7;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const SYNC: i32 = 9;
    pub(crate) const PING: i32 = 11;
    pub(crate) const GET_CHILDREN_2: i32 = 12;
    pub(crate) const CHECK: i32 = 13;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const CREATE_2: i32 = 15;
    pub(crate) const RECONFIG: i32 = 16;
    pub(crate) const CHECK_WATCHES: i32 = 17;
    pub(crate) const REMOVE_WATCHES: i32 = 18;
    pub(crate) const CREATE_CONTAINER: i32 = 19;
    pub(crate) const DELETE_CONTAINER: i32 = 20;
    pub(crate) const CREATE_TTL: i32 = 21;
    pub(crate) const MULTI_READ: i32 = 22;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const SET_WATCHES: i32 = 101;
    pub(crate) const GET_EPHEMERALS: i32 = 103;
    pub(crate) const GET_ALL_CHILDREN_NUMBER: i32 = 104;
    pub(crate) const WHO_AM_I: i32 = 107;
    pub(crate) const CLOSE_SESSION: i32 = -11;
    /// The type code in a request or answer of several operations (multi) that marks its end, or a failed part of the
    /// answer.
    pub(crate) const MULTI_MARK: i32 = -1;
}

/// Maximum length in bytes of a path that is watched, so that the number of watches bounds their memory. HBase's paths are
/// much shorter.
const WATCHED_PATH_MAX: usize = 1 << 10;
/// Length in bytes of the answer to several reads (multi-read) above which the connection is closed: each of the many reads
/// that fit into a request may ask for the names of all tables. ZooKeeper's clients accept 1 MB.
const MULTI_READ_MAX: usize = 4 << 20;

/// The only permission that clients have on this server: read.
const PERMISSION_READ: i32 = 1;
/// The connection state that events contain: connected.
const SYNC_CONNECTED: i32 = 3;

mod event {
    pub(super) const CREATED: i32 = 1;
    pub(super) const DELETED: i32 = 2;
    pub(super) const DATA_CHANGED: i32 = 3;
    pub(super) const CHILDREN_CHANGED: i32 = 4;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Watch {
    /// A watch that a client sets when it reads an existing node.
    Data,
    /// A watch that a client sets when it checks for a node that does not exist.
    Exists,
    Children,
}

/// What the connection does after it has answered a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    GoOn,
    Close,
}

/// The state of a connected client: its watches.
pub(crate) struct Session {
    remote: IpAddr,
    /// The watches, each with the zxid after which a change fires it.
    watches: BTreeMap<(String, Watch), i64>,
    watches_max: usize,
}

impl Session {
    pub(crate) fn new(remote: IpAddr, watches_max: usize) -> Session {
        Session { remote, watches: BTreeMap::new(), watches_max }
    }

    /// Answers one request and appends the reply and events to `out`. An error means that the request cannot be parsed;
    /// ZooKeeper closes the connection then.
    pub(crate) fn answer(
        &mut self,
        tree: &Tree,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<NextStep, Malformed> {
        let mut request = Reader::new(frame);
        let (xid, operation) = (request.int()?, request.int()?);
        let mut body = Writer::default();
        let mut after = NextStep::GoOn;
        let last = tree.last_change();
        let error = match operation {
            op::PING => 0,
            op::CLOSE_SESSION => {
                after = NextStep::Close;
                0
            }
            op::GET_DATA | op::EXISTS | op::GET_CHILDREN | op::GET_CHILDREN_2 => {
                let (path, watch) = (request.text()?, request.bool()?);
                let error = read(tree, operation, path, &mut body);
                if watch {
                    self.watch(operation, path, error, last);
                }
                error
            }
            op::MULTI_READ => {
                multi_read(tree, &mut request, &mut body)?;
                0
            }
            op::SYNC => {
                body.text(request.text()?);
                0
            }
            op::GET_ACL => match tree.stat(request.text()?) {
                Some(stat) => {
                    body.int(1).int(PERMISSION_READ).text("world").text("anyone");
                    write_stat(&mut body, &stat);
                    0
                }
                None => code::NO_NODE,
            },
            op::GET_ALL_CHILDREN_NUMBER => match tree.descendants(request.text()?) {
                Some(count) => {
                    body.int(count as i32);
                    0
                }
                None => code::NO_NODE,
            },
            op::GET_EPHEMERALS => {
                // Clients cannot create ephemeral nodes.
                body.int(0);
                0
            }
            op::WHO_AM_I => {
                body.int(1).text("ip").text(&self.remote.to_string());
                0
            }
            op::AUTH => {
                let (_, scheme, _) = (request.int()?, request.text()?, request.bytes()?);
                // Identities are not checked, but an authentication scheme that ZooKeeper does not have is refused.
                if matches!(scheme, "digest" | "ip" | "world") {
                    0
                } else {
                    after = NextStep::Close;
                    code::AUTH_FAILED
                }
            }
            op::SET_WATCHES => {
                let since = request.long()?;
                for kind in [Watch::Data, Watch::Exists, Watch::Children] {
                    for path in request.texts()? {
                        self.add(path, kind, since);
                    }
                }
                0
            }
            op::CHECK_WATCHES | op::REMOVE_WATCHES => {
                self.known_watch(operation, request.text()?, request.int()?)
            }
            op::SET_DATA | op::DELETE | op::SET_ACL | op::CHECK | op::DELETE_CONTAINER => {
                if tree.stat(request.text()?).is_some() { code::NO_AUTH } else { code::NO_NODE }
            }
            op::CREATE | op::CREATE_2 | op::CREATE_CONTAINER | op::CREATE_TTL => {
                let path = request.text()?;
                let parent = path.rfind('/').map_or("", |at| if at == 0 { "/" } else { &path[..at] });
                if !is_path(path) {
                    code::BAD_ARGUMENTS
                } else if tree.stat(parent).is_some() {
                    code::NO_AUTH
                } else {
                    code::NO_NODE
                }
            }
            op::MULTI | op::RECONFIG => code::NO_AUTH,
            _ => code::UNIMPLEMENTED,
        };
        let mut reply = Writer::frame();
        reply.int(xid).long(last).int(error);
        if error == 0 {
            reply.0.extend_from_slice(&body.0);
        }
        out.extend_from_slice(&reply.finish());
        // When a new connection restores its watches, some may have to fire at once.
        if operation == op::SET_WATCHES {
            self.events(tree, out);
        }
        Ok(after)
    }

    fn watch(&mut self, operation: i32, path: &str, error: i32, since: i64) {
        match (operation, error) {
            (op::GET_DATA | op::EXISTS, 0) => self.add(path, Watch::Data, since),
            (op::EXISTS, code::NO_NODE) => self.add(path, Watch::Exists, since),
            (op::GET_CHILDREN | op::GET_CHILDREN_2, 0) => self.add(path, Watch::Children, since),
            _ => {}
        }
    }

    fn add(&mut self, path: &str, kind: Watch, since: i64) {
        if self.watches.len() < self.watches_max && path.len() <= WATCHED_PATH_MAX {
            self.watches.insert((path.to_owned(), kind), since);
        }
    }

    /// Returns 0 if the client has a watch of this kind on `path`, or else the code for no watcher. If `operation`
    /// removes watches, removes it. The kinds on the wire are 1 for children, 2 for data, and 3 for any.
    fn known_watch(&mut self, operation: i32, path: &str, kind: i32) -> i32 {
        let kinds: &[Watch] = match kind {
            1 => &[Watch::Children],
            2 => &[Watch::Data, Watch::Exists],
            _ => &[Watch::Children, Watch::Data, Watch::Exists],
        };
        let before = self.watches.len();
        let mut known = false;
        for &kind in kinds {
            known |= self.watches.contains_key(&(path.to_owned(), kind));
            if operation == op::REMOVE_WATCHES {
                self.watches.remove(&(path.to_owned(), kind));
            }
        }
        if known || self.watches.len() < before { 0 } else { code::NO_WATCHER }
    }

    /// Sends the events of watches that have fired, each once.
    pub(crate) fn events(&mut self, tree: &Tree, out: &mut Vec<u8>) {
        self.watches.retain(|(path, kind), since| {
            let stat = tree.stat(path);
            let fired = match (kind, &stat) {
                (Watch::Data | Watch::Children, None) => Some(event::DELETED),
                (Watch::Data, Some(stat)) => (stat.modified > *since).then_some(event::DATA_CHANGED),
                (Watch::Children, Some(stat)) => {
                    (stat.children_modified > *since).then_some(event::CHILDREN_CHANGED)
                }
                (Watch::Exists, Some(_)) => Some(event::CREATED),
                (Watch::Exists, None) => None,
            };
            if let Some(event) = fired {
                let mut frame = Writer::frame();
                frame.int(-1).long(-1).int(0).int(event).int(SYNC_CONNECTED).text(path);
                out.extend_from_slice(&frame.finish());
            }
            fired.is_none()
        });
    }
}

/// Writes the answer of a read operation, and returns its error code.
fn read(tree: &Tree, operation: i32, path: &str, body: &mut Writer) -> i32 {
    if !is_path(path) {
        return code::BAD_ARGUMENTS;
    }
    let found = match operation {
        op::GET_DATA => tree.read(path).map(|(data, stat)| {
            body.bytes(&data);
            write_stat(body, &stat);
        }),
        op::EXISTS => tree.stat(path).map(|stat| write_stat(body, &stat)),
        _ => tree.children(path).map(|(names, stat)| {
            body.texts(names.iter().map(String::as_str));
            if operation == op::GET_CHILDREN_2 {
                write_stat(body, &stat);
            }
        }),
    };
    if found.is_some() { 0 } else { code::NO_NODE }
}

/// Answers several reads in one request. Each part has a header `type 4B · done 1B · error 4B`; a failed part has only
/// its error. Fails if the answer has more than [`MULTI_READ_MAX`] bytes.
fn multi_read(tree: &Tree, request: &mut Reader<'_>, body: &mut Writer) -> Result<(), Malformed> {
    loop {
        let (operation, done, _) = (request.int()?, request.bool()?, request.int()?);
        if done {
            break;
        }
        let (path, _) = (request.text()?, request.bool()?);
        let mut part = Writer::default();
        let error = match operation {
            op::GET_DATA | op::GET_CHILDREN => read(tree, operation, path, &mut part),
            _ => code::UNIMPLEMENTED,
        };
        if error == 0 {
            body.int(operation).bool(false).int(0);
            body.0.extend_from_slice(&part.0);
        } else {
            body.int(op::MULTI_MARK).bool(false).int(error).int(error);
        }
        if body.0.len() > MULTI_READ_MAX {
            return Err(Malformed("the answer to several reads is too long"));
        }
    }
    body.int(op::MULTI_MARK).bool(true).int(-1);
    Ok(())
}

fn write_stat(out: &mut Writer, stat: &Stat) {
    out.long(stat.created)
        .long(stat.modified)
        .long(stat.created_at)
        .long(stat.modified_at)
        .int(stat.version)
        .int(stat.children_version)
        // Two constants: the version of the access list, which never changes, and the session that owns an ephemeral
        // node.
        .int(0)
        .long(0)
        .int(stat.length)
        .int(stat.children)
        .long(stat.children_modified);
}

/// The connect request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connect {
    pub(crate) timeout_ms: i32,
    pub(crate) session: i64,
    pub(crate) password: [u8; 16],
}

impl Connect {
    pub(crate) fn read(frame: &[u8]) -> Result<Connect, Malformed> {
        let mut request = Reader::new(frame);
        let (_version, _last_seen) = (request.int()?, request.long()?);
        let (timeout_ms, session) = (request.int()?, request.long()?);
        let password = request.bytes()?;
        // Old clients do not send the read-only flag.
        if !request.is_empty() {
            request.bool()?;
        }
        let mut padded = [0; 16];
        let length = password.len().min(16);
        padded[..length].copy_from_slice(&password[..length]);
        Ok(Connect { timeout_ms, session, password: padded })
    }

    /// Returns the answer to a connect request. Session id zero tells the client that the requested session has
    /// expired.
    pub(crate) fn reply(timeout_ms: i32, session: i64, password: &[u8; 16]) -> Vec<u8> {
        let mut reply = Writer::frame();
        reply.int(0).int(timeout_ms).long(session).bytes(password).bool(false);
        reply.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::{WallTime, World};

    fn tree() -> Tree {
        let tree = Tree::new(World::simulated(1, WallTime(0)));
        tree.set("/hbase/master", "m");
        tree
    }

    fn session() -> Session {
        Session::new(IpAddr::from([127, 0, 0, 1]), 4)
    }

    fn request(operation: i32, body: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.int(9).int(operation);
        body(&mut writer);
        writer.0
    }

    /// Sends a request, and returns the error code and the body of its only reply.
    fn ask(session: &mut Session, tree: &Tree, frame: &[u8]) -> (i32, Vec<u8>) {
        let mut out = Vec::new();
        session.answer(tree, frame, &mut out).expect("readable");
        let mut reply = Reader::new(&out);
        assert_eq!(reply.int().expect("length") as usize, out.len() - 4);
        assert_eq!(reply.int(), Ok(9));
        assert_eq!(reply.long(), Ok(tree.last_change()));
        (reply.int().expect("error"), out[20..].to_vec())
    }

    fn events(session: &mut Session, tree: &Tree) -> Vec<(i32, String)> {
        let mut out = Vec::new();
        session.events(tree, &mut out);
        let mut events = Vec::new();
        let mut reader = Reader::new(&out);
        while !reader.is_empty() {
            let _length = reader.int().expect("length");
            assert_eq!((reader.int(), reader.long(), reader.int()), (Ok(-1), Ok(-1), Ok(0)));
            let event = reader.int().expect("type");
            assert_eq!(reader.int(), Ok(SYNC_CONNECTED));
            events.push((event, reader.text().expect("path").to_owned()));
        }
        events
    }

    fn path_and_watch(path: &str, watch: bool) -> impl FnOnce(&mut Writer) {
        move |body| {
            body.text(path).bool(watch);
        }
    }

    #[test]
    fn reads_are_answered_and_a_missing_node_is_reported() {
        let (tree, mut session) = (tree(), session());
        let (error, body) =
            ask(&mut session, &tree, &request(op::GET_DATA, path_and_watch("/hbase/master", false)));
        assert_eq!((error, Reader::new(&body).bytes()), (0, Ok(&b"m"[..])));
        let (error, body) =
            ask(&mut session, &tree, &request(op::GET_CHILDREN_2, path_and_watch("/hbase", false)));
        assert_eq!((error, Reader::new(&body).texts()), (0, Ok(vec!["master"])));
        assert_eq!(body.len(), 4 + 4 + 6 + 68, "names and a stat of 68 bytes");
        for operation in [op::GET_DATA, op::EXISTS, op::GET_CHILDREN, op::GET_CHILDREN_2] {
            let (error, body) =
                ask(&mut session, &tree, &request(operation, path_and_watch("/nowhere", false)));
            assert_eq!((error, body.len()), (code::NO_NODE, 0));
        }
        let (error, _) = ask(&mut session, &tree, &request(op::GET_DATA, path_and_watch("hbase/", false)));
        assert_eq!(error, code::BAD_ARGUMENTS);
    }

    #[test]
    fn writes_and_unknown_operations_are_refused() {
        let (tree, mut session) = (tree(), session());
        let mut error = |operation, path: &'static str| {
            ask(
                &mut session,
                &tree,
                &request(operation, move |body| {
                    body.text(path).bytes(b"data").int(-1);
                }),
            )
            .0
        };
        assert_eq!(error(op::SET_DATA, "/hbase/master"), code::NO_AUTH);
        assert_eq!(error(op::SET_DATA, "/hbase/nobody"), code::NO_NODE);
        assert_eq!(error(op::DELETE, "/hbase"), code::NO_AUTH);
        assert_eq!(error(op::CREATE, "/hbase/new"), code::NO_AUTH);
        assert_eq!(error(op::CREATE_2, "/new"), code::NO_AUTH);
        assert_eq!(error(op::CREATE, "/no/parent"), code::NO_NODE);
        assert_eq!(error(op::MULTI, "/"), code::NO_AUTH);
        assert_eq!(error(4_711, "/"), code::UNIMPLEMENTED);
    }

    #[test]
    fn watches_fire_once_and_only_after_a_change() {
        let (tree, mut session) = (tree(), session());
        ask(&mut session, &tree, &request(op::GET_DATA, path_and_watch("/hbase/master", true)));
        ask(&mut session, &tree, &request(op::EXISTS, path_and_watch("/hbase/running", true)));
        ask(&mut session, &tree, &request(op::GET_CHILDREN, path_and_watch("/hbase", true)));
        assert!(events(&mut session, &tree).is_empty());
        tree.set("/hbase/master", "other");
        assert_eq!(events(&mut session, &tree), [(event::DATA_CHANGED, "/hbase/master".to_owned())]);
        tree.set("/hbase/running", "");
        assert_eq!(
            events(&mut session, &tree),
            [(event::CHILDREN_CHANGED, "/hbase".to_owned()), (event::CREATED, "/hbase/running".to_owned())]
        );
        tree.set("/hbase/master", "third");
        assert!(events(&mut session, &tree).is_empty(), "each fires once");
        // A reconnecting client restores its watches and the last zxid that it has seen.
        let mut out = Vec::new();
        let seen = tree.last_change() - 1;
        let again = request(op::SET_WATCHES, |body| {
            body.long(seen).texts(["/hbase/master"].into_iter()).int(0).int(0);
        });
        session.answer(&tree, &again, &mut out).expect("readable");
        assert!(out.windows(13).any(|bytes| bytes == b"/hbase/master"), "told at once what it missed");
        let many = request(op::SET_WATCHES, |body| {
            body.long(100).texts((0..100).map(|_| "/hbase")).int(0).int(0);
        });
        session.answer(&tree, &many, &mut out).expect("readable");
        assert!(session.watches.len() <= 4);
    }

    #[test]
    fn several_reads_in_one() {
        let (tree, mut session) = (tree(), session());
        let frame = request(op::MULTI_READ, |body| {
            for path in ["/hbase/master", "/nowhere"] {
                body.int(op::GET_DATA).bool(false).int(-1).text(path).bool(false);
            }
            body.int(-1).bool(true).int(-1);
        });
        let (error, body) = ask(&mut session, &tree, &frame);
        let mut body = Reader::new(&body);
        assert_eq!((error, body.int(), body.bool(), body.int()), (0, Ok(op::GET_DATA), Ok(false), Ok(0)));
        assert_eq!(body.bytes(), Ok(&b"m"[..]));
        for _ in 0..8 {
            body.long().expect("stat");
        }
        body.int().expect("stat");
        assert_eq!(
            (body.int(), body.bool(), body.int(), body.int()),
            (Ok(-1), Ok(false), Ok(-101), Ok(-101))
        );
        assert_eq!((body.int(), body.bool(), body.int()), (Ok(-1), Ok(true), Ok(-1)));
        assert!(body.is_empty());
    }

    #[test]
    fn what_a_client_can_make_the_server_hold_is_limited() {
        let (tree, mut session) = (tree(), session());
        let long = format!("/{}", "a".repeat(WATCHED_PATH_MAX));
        ask(&mut session, &tree, &request(op::EXISTS, path_and_watch(&long, true)));
        let frame = request(op::SET_WATCHES, |body| {
            body.long(0).int(0).texts([&long[..]].into_iter()).int(0);
        });
        session.answer(&tree, &frame, &mut Vec::new()).expect("readable");
        assert!(session.watches.is_empty(), "a watch on a long path is dropped");
        for number in 0..1_000 {
            tree.set(&format!("/hbase/table/{number}"), "");
        }
        let reads = |count: usize| {
            request(op::MULTI_READ, |body| {
                for _ in 0..count {
                    body.int(op::GET_CHILDREN).bool(false).int(-1).text("/hbase/table").bool(false);
                }
                body.int(-1).bool(true).int(-1);
            })
        };
        let mut out = Vec::new();
        session.answer(&tree, &reads(10), &mut out).expect("70 KB");
        assert!(out.len() > 60_000);
        let failed = session.answer(&tree, &reads(20_000), &mut Vec::new());
        assert_eq!(failed, Err(Malformed("the answer to several reads is too long")));
    }

    #[test]
    fn any_bytes_are_handled_without_a_panic() {
        let tree = tree();
        let operations: Vec<i32> = (-12..=30).chain(98..=110).collect();
        for seed in 0..20_000u64 {
            let world = World::simulated(seed, WallTime(0));
            let below = |bound: usize| (world.random() % bound as u64) as usize;
            let mut frame = request(operations[below(operations.len())], |body| {
                body.text("/hbase/master").bool(true).int(below(4) as i32).texts(["/hbase", "x"].into_iter());
            });
            match seed % 3 {
                0 => frame.truncate(below(frame.len())),
                1 => {
                    for _ in 0..=below(4) {
                        let at = below(frame.len());
                        frame[at] = world.random() as u8;
                    }
                }
                _ => {}
            }
            let mut out = Vec::new();
            let mut session = session();
            let _either = session.answer(&tree, &frame, &mut out);
            assert!(out.len() < 1_000, "seed {seed}: {} bytes", out.len());
            let _either = Connect::read(&frame);
        }
    }
}
