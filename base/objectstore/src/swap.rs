//! Conditional puts whose lost replies are resolved.
//!
//! | reply | meaning | next |
//! |---|---|---|
//! | 200 | it happened | done |
//! | 412, 409 | refused; perhaps because the store had our own request already | read the object and compare |
//! | 403, 401 | it did not happen | send it again: rights and keys change, and clocks are set |
//! | 400, 5xx, timeout, reset | it may have happened | send the same bytes again, and warn every [`PAUSE_MAX`] |
//!
//! All this ends after [`Options::settle_time`](crate::Options::settle_time), by the monotonic clock: the last request is
//! cancelled then, and the read of the object ends, too.
//!
//! A 400 is repeated, because a proxy may be its cause, and some of S3's mean a request that arrived incomplete. While a
//! store is probed there is nothing to resolve. So [`Repeat::UnlessPermanent`] ends at the first reply by which the store
//! says that it will never do this, such as `InvalidBucketName`, or 501 for a condition that it does not know.
//!
//! The store may have had a request although no reply was lost: a proxy or the network may deliver a request twice, and
//! the reply to the second delivery may come first. So the object is compared after every refusal. A swap compares the
//! bytes. A file also has a random number in its metadata, because another writer's file may have the same bytes.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Attributes, PutMode, PutOptions, UpdateVersion};
use storage::{Error, FileName, Kind, Outcome, Result, Version};

use crate::repeat::{PAUSE_MAX, PAUSE_MIN, no_reply};
use crate::{Bucket, code, is_absent, is_of_intermediary, of_store, version_of, with_causes};

/// In the message of a store that does not know a header of the request, such as If-None-Match.
pub(crate) const NOT_IMPLEMENTED: &str = "status code: 501 ";

/// Which failures of a put are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// All whose outcome is unknown.
    UntilSettled,
    /// The same, without those that every repetition would meet.
    UnlessPermanent,
}

/// How the reply to a conditional put is judged.
struct PutConditions {
    /// Whether an earlier request with the same bytes may have happened.
    is_in_doubt: bool,
    /// The random number of the writer that the object gets; `None` if it gets none.
    nonce: Option<String>,
    repeat: Repeat,
}

impl Bucket {
    /// Writes `new` if the object still has the version `expected`, or, with `None`, if there is no object. Returns the
    /// new version. Succeeds also if the store refuses that and the object has the bytes `new`. `is_in_doubt` says that an
    /// earlier request with the same bytes may have happened. `repeat` says which failures are repeated.
    pub(crate) async fn swap_object(
        &self,
        name: &FileName,
        path: &Path,
        expected: Option<&Version>,
        new: Bytes,
        is_in_doubt: bool,
        repeat: Repeat,
    ) -> Result<Version> {
        self.put_object(name, path, expected, new, PutConditions { is_in_doubt, nonce: None, repeat }).await
    }

    /// Creates the object of a file. If the store refuses that, and no reply was lost, succeeds only if the object has
    /// the random number `nonce` of this writer.
    pub(crate) async fn create_object(
        &self,
        name: &FileName,
        path: &Path,
        content: Bytes,
        nonce: u64,
    ) -> Result<Version> {
        let nonce = Some(format!("{nonce:016x}"));
        let conditions = PutConditions { is_in_doubt: false, nonce, repeat: Repeat::UntilSettled };
        self.put_object(name, path, None, content, conditions).await
    }

    async fn put_object(
        &self,
        name: &FileName,
        path: &Path,
        expected: Option<&Version>,
        new: Bytes,
        conditions: PutConditions,
    ) -> Result<Version> {
        let PutConditions { mut is_in_doubt, nonce, repeat } = conditions;
        let mode = match expected {
            None => PutMode::Create,
            Some(version) => PutMode::Update(UpdateVersion {
                e_tag: Some(String::from_utf8_lossy(version.as_bytes()).into_owned()),
                version: None,
            }),
        };
        let mut attributes = Attributes::new();
        if let Some(nonce) = &nonce {
            attributes.insert(self.shared.options.service.nonce(), nonce.clone().into());
        }
        let deadline = self.deadline();
        let (mut pause, mut last) = (PAUSE_MIN, None);
        loop {
            let options =
                PutOptions { mode: mode.clone(), attributes: attributes.clone(), ..PutOptions::default() };
            let key_changes = self.key_changes();
            let put = self.shared.once.put_opts(path, new.clone().into(), options);
            let error = match self.until(deadline, put).await {
                Some(Ok(put)) => return version_of(put.e_tag, name),
                Some(Err(error)) => error,
                None => {
                    return Err(Error::new(Kind::Failed, Outcome::MayHaveHappened, name, "swap")
                        .because(with_causes(&no_reply(last))));
                }
            };
            if self.has_new_keys(key_changes, &error) {
                // A status 400 may be that of a proxy, after the store has executed the request.
                is_in_doubt |= matches!(error, object_store::Error::Generic { .. });
                last = Some(error);
                continue;
            }
            if repeat == Repeat::UnlessPermanent && is_permanent(&error) {
                return Err(of_store(&error, Outcome::DidNotHappen, name, "swap"));
            }
            use object_store::Error as Store;
            match &error {
                Store::AlreadyExists { .. } | Store::Precondition { .. } | Store::NotFound { .. } => {
                    match self.get(name, path, usize::MAX, deadline).await {
                        Ok((found, marked))
                            if found.content == new
                                && (is_in_doubt || nonce.is_none() || marked == nonce) =>
                        {
                            return Ok(found.version);
                        }
                        // Refused although nothing has changed: the store had not settled another request.
                        Ok((found, _)) if Some(&found.version) == expected => {}
                        Ok(_) => return Err(conflict(name, is_in_doubt)),
                        Err(error) if error.kind() == Kind::NotFound => match expected {
                            None => {}
                            Some(_) => return Err(conflict(name, is_in_doubt)),
                        },
                        Err(_) => is_in_doubt = true,
                    }
                }
                // It passes, too: with rights or keys that were changed a moment ago, or a clock that was wrong.
                Store::PermissionDenied { .. } | Store::Unauthenticated { .. } if !is_in_doubt => {
                    if repeat == Repeat::UnlessPermanent || pause >= self.time_left(deadline) {
                        return Err(of_store(&error, Outcome::DidNotHappen, name, "swap"));
                    }
                }
                _ => is_in_doubt = true,
            }
            let left = self.time_left(deadline);
            if pause >= left {
                let outcome = if is_in_doubt { Outcome::MayHaveHappened } else { Outcome::DidNotHappen };
                return Err(Error::new(Kind::Failed, outcome, name, "swap").because(with_causes(&error)));
            }
            if pause >= PAUSE_MAX {
                tracing::warn!(
                    file = %name, error = with_causes(&error),
                    left_ms = left.as_millis() as u64,
                    settle_ms = self.shared.options.settle_time.as_millis() as u64,
                    "the object store does not take a write; it is sent again until its outcome is known"
                );
            }
            last = Some(error);
            env::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Whether the store has refused a put for a reason that lies in the request, so that every repetition is refused.
fn is_permanent(error: &object_store::Error) -> bool {
    const TRANSIENT: [&str; 7] = [
        "RequestTimeout",
        "IncompleteBody",
        "BadDigest",
        "Md5Mismatch",
        "XAmzContentSHA256Mismatch",
        "RequestTimeTooSkewed",
        "ExpiredToken",
    ];
    use object_store::Error as Store;
    let words = error.to_string();
    let is_transient = code(&words).is_some_and(|code| TRANSIENT.contains(&code));
    match error {
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => !is_transient,
        // `NoSuchBucket`, and `XAdminUserNotFound` of versitygw for an unknown access key.
        Store::NotFound { .. } => !is_absent(error) && !is_of_intermediary(error),
        _ if words.contains(NOT_IMPLEMENTED) => true,
        _ => words.contains("status code: 400 ") && code(&words).is_some() && !is_transient,
    }
}

fn conflict(name: &FileName, is_in_doubt: bool) -> Error {
    let outcome = if is_in_doubt { Outcome::MayHaveHappened } else { Outcome::DidNotHappen };
    Error::new(Kind::Conflict, outcome, name, "swap")
}

#[cfg(test)]
#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a store that refuses everything")]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use env::World;
    use storage::{Files, Segmented};

    use super::*;
    use crate::{Options, S3, Service};

    /// The settle time of the buckets of these tests.
    const SETTLE: Duration = Duration::from_secs(1);

    /// Returns a bucket of the store at `listener`.
    fn bucket_at(listener: &TcpListener) -> Bucket {
        bucket_by("http", listener, SETTLE)
    }

    fn bucket_by(scheme: &str, listener: &TcpListener, settle_time: Duration) -> Bucket {
        let bucket = Bucket::new(Options {
            endpoint: Some(format!("{scheme}://{}", listener.local_addr().expect("bound"))),
            service: Service::S3(S3 {
                region: Some("us-east-1".to_owned()),
                keys: Some(("a".to_owned(), "b".to_owned())),
                path_style: true,
                ..S3::default()
            }),
            settle_time,
            ..Options::new("Bucket_", "")
        });
        bucket.expect("a client")
    }

    /// Starts a store that answers every request with `status` and an error of this code. Returns a bucket in it, and the
    /// number of PUT requests so far.
    fn refusing(status: &'static str, code: &'static str) -> (Bucket, Arc<AtomicUsize>) {
        answering(status, format!("<Error><Code>{code}</Code><Message>no</Message></Error>"), SETTLE)
    }

    /// Does the same for a store that answers every request with `status` and `body`.
    fn answering(status: &'static str, body: String, settle_time: Duration) -> (Bucket, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let bucket = bucket_by("http", &listener, settle_time);
        let puts = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&puts);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.expect("accepted");
                let mut request = [0; 16 << 10];
                let count = client.read(&mut request).unwrap_or(0);
                if request[..count].starts_with(b"PUT ") {
                    counted.fetch_add(1, Ordering::AcqRel);
                }
                let size = body.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n{body}");
                let _client_may_be_gone = client.write_all(answer.as_bytes());
            }
        });
        (bucket, puts)
    }

    /// Returns a bucket of a store that accepts connections and never replies. The store ends with the listener.
    fn silent() -> (Bucket, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        (bucket_at(&listener), listener)
    }

    /// Checks that `call` fails after the settle time at the latest. Half of it is added for a busy machine.
    fn assert_settles<T>(what: &str, call: impl FnOnce() -> Result<T>) -> Error {
        let world = World::real();
        let began = world.moment();
        let error = call().err().expect("the store does not work");
        let took = world.moment().since(began);
        assert!(took < SETTLE * 3 / 2, "{what} ended after {took:?} with {error}");
        error
    }

    #[test]
    fn every_call_ends_after_the_settle_time_whether_the_store_fails_or_hangs() {
        let name = FileName::new("file");
        let (failing, _puts) = refusing("503 Slow Down", "SlowDown");
        let (silent, _listener) = silent();
        for (bucket, what) in [(failing, "a store that fails"), (silent, "a store that hangs")] {
            let growing = Segmented::new(Arc::new(bucket.clone()), World::real(), SETTLE);
            let error = assert_settles(&format!("{what}: log"), || growing.create(&name));
            assert_eq!(error.outcome(), Outcome::MayHaveHappened);
            let error = assert_settles(&format!("{what}: file list"), || {
                storage::swap_confirmed(&bucket, &name, None, b"one")
            });
            assert_eq!(error.outcome(), Outcome::MayHaveHappened);
            assert_settles(&format!("{what}: open"), || bucket.open(&name));
            assert_settles(&format!("{what}: load"), || bucket.load(&name, 100));
            assert_settles(&format!("{what}: list"), || bucket.list(&FileName::root()));
            assert_settles(&format!("{what}: delete"), || bucket.delete(&name));
            assert_settles(&format!("{what}: delete many"), || {
                bucket.delete_all(std::slice::from_ref(&name))
            });
            assert_settles(&format!("{what}: probe"), || bucket.probe());
        }
    }

    /// Serves `client`. For as many requests as `lost` says, sends no reply, or one whose last byte is missing (`begins`).
    fn serve(mut client: TcpStream, lost: &AtomicUsize, begins: bool) {
        let (mut request, mut part) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = client.read(&mut part) {
            request.extend_from_slice(&part[..count]);
            let head = String::from_utf8_lossy(&request).to_ascii_lowercase();
            let Some((head, body)) = head.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() < length.map_or(0, |length| length.parse().expect("a number")) {
                continue;
            }
            request.clear();
            let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"e\"\r\n\
                          Last-Modified: Sat, 28 Nov 2026 00:00:00 GMT\r\n\r\none";
            let take = |left: usize| left.checked_sub(1);
            let is_lost = lost.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok();
            let sent = match is_lost {
                true if begins => reply.len() - 1,
                true => 0,
                false => reply.len(),
            };
            let _client_may_be_gone = client.write_all(&reply[..sent]);
        }
    }

    #[test]
    fn a_call_survives_two_replies_that_never_come_or_stop() {
        for begins in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let bucket = bucket_by("http", &listener, 6 * SETTLE);
            let lost = Arc::<AtomicUsize>::default();
            let counted = Arc::clone(&lost);
            std::thread::spawn(move || {
                for client in listener.incoming() {
                    let (client, lost) = (client.expect("accepted"), Arc::clone(&counted));
                    std::thread::spawn(move || serve(client, &lost, begins));
                }
            });
            let name = FileName::new("file");
            if !begins {
                lost.store(2, Ordering::Release);
                bucket.swap(&name, None, b"one").expect("the third request is answered");
            }
            lost.store(2, Ordering::Release);
            let loaded = bucket.load(&name, 100).expect("the third request is answered");
            assert_eq!((&loaded.content[..], lost.load(Ordering::Acquire)), (&b"one"[..], 0));
        }
    }

    #[test]
    fn calls_under_one_deadline_end_together_and_a_later_call_has_its_own() {
        let name = FileName::new("file");
        let (bucket, puts) = refusing("503 Slow Down", "SlowDown");
        let bounded = bucket.under_one_deadline().expect("it repeats requests");
        assert!(bounded.under_one_deadline().is_none(), "the deadline stays");
        bounded.swap(&name, None, b"one").expect_err("refused");
        World::real().pause(SETTLE);
        let sent = puts.load(Ordering::Acquire);
        bounded.settle(&name, None, b"one").expect_err("too late");
        assert_eq!(puts.load(Ordering::Acquire), sent, "nothing is sent after the deadline");
        bucket.swap(&name, None, b"one").expect_err("refused");
        assert!(puts.load(Ordering::Acquire) > sent);
    }

    #[test]
    fn a_probe_ends_at_a_permanent_refusal_and_a_write_is_repeated() {
        for (status, code) in [
            ("400 Bad Request", "InvalidBucketName"),
            ("403 Forbidden", "InvalidAccessKeyId"),
            ("404 Not Found", "NoSuchBucket"),
            ("404 Not Found", "XAdminUserNotFound"),
        ] {
            let (bucket, puts) = refusing(status, code);
            let error = bucket.probe().expect_err("refused").to_string();
            assert!(error.contains(code), "{error}");
            assert_eq!(puts.load(Ordering::Acquire), 1, "{code} is final");
        }
        for (status, code) in [("400 Bad Request", "RequestTimeout"), ("503 Slow Down", "SlowDown")] {
            let (bucket, puts) = refusing(status, code);
            bucket.probe().expect_err("refused");
            assert!(puts.load(Ordering::Acquire) > 3, "{code} may pass");
        }
        let (bucket, puts) = refusing("501 Not Implemented", "NotImplemented");
        let error = bucket.probe().expect_err("refused").to_string();
        assert!(error.contains("it has no conditional writes (If-None-Match"), "{error}");
        assert_eq!(puts.load(Ordering::Acquire), 1, "a header that the store does not know is final");
        let (bucket, puts) = refusing("400 Bad Request", "InvalidBucketName");
        let error = bucket.swap(&FileName::new("list"), None, b"one").expect_err("refused");
        assert_eq!(error.outcome(), Outcome::MayHaveHappened);
        assert!(puts.load(Ordering::Acquire) > 3, "a write of a server is settled");
        let (bucket, puts) = refusing("403 Forbidden", "AccessDenied");
        let error = bucket.swap(&FileName::new("list"), None, b"one").expect_err("refused");
        assert_eq!((error.kind(), error.outcome()), (Kind::ReadOnly, Outcome::DidNotHappen));
        assert!(puts.load(Ordering::Acquire) > 3, "a refusal may pass");
    }

    /// The messages of a read and of a write say why the connection failed.
    #[test]
    fn a_connection_that_fails_is_reported_with_its_cause() {
        let name = FileName::new("file");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let bucket = bucket_at(&listener);
        drop(listener);
        for error in [bucket.load(&name, 1).err(), bucket.swap(&name, None, b"one").err()] {
            let error = error.expect("nothing listens").to_string();
            assert!(error.contains("Connection refused"), "{error}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let bucket = bucket_by("https", &listener, SETTLE);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.expect("accepted");
                let _hello = client.read(&mut [0; 4096]);
                let _client_may_be_gone = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
        });
        for error in [bucket.load(&name, 1).err(), bucket.swap(&name, None, b"one").err()] {
            let error = error.expect("no TLS").to_string();
            assert!(error.contains("received corrupt message"), "{error}");
        }
    }

    #[test]
    fn an_unknown_bucket_or_access_key_does_not_make_files_absent() {
        let name = FileName::new("file");
        for (code, is_absent) in [("NoSuchKey", true), ("NoSuchBucket", false), ("XAdminUserNotFound", false)]
        {
            let (bucket, _puts) = refusing("404 Not Found", code);
            let loaded = bucket.load(&name, 100).expect_err("refused");
            assert_eq!(loaded.kind() == Kind::NotFound, is_absent, "{loaded}");
            let opened = bucket.open(&name).err().expect("refused");
            assert_eq!(opened.kind() == Kind::NotFound, is_absent, "{opened}");
            assert_eq!(bucket.delete(&name).is_ok(), is_absent, "{code}");
        }
    }
    /// A proxy in front of the store answers so while it has no route to it.
    #[test]
    fn a_404_that_is_not_the_stores_is_repeated_and_does_not_make_files_absent() {
        let name = FileName::new("file");
        for body in ["", "404 page not found\n"] {
            let (bucket, puts) = answering("404 Not Found", body.to_owned(), SETTLE / 2);
            for error in [bucket.load(&name, 100).err(), bucket.open(&name).err(), bucket.delete(&name).err()]
            {
                let error = error.expect("no reply of the store");
                assert_eq!(error.kind(), Kind::Failed, "{error}");
            }
            let [_, gets, _, deletes, _] = bucket.requests().all();
            assert!(gets > 2 && deletes > 1, "{gets} GET and {deletes} DELETE requests");
            bucket.swap(&name, None, b"one").expect_err("no reply of the store");
            bucket.probe().expect_err("no reply of the store");
            assert!(puts.load(Ordering::Acquire) >= 2);
        }
    }
}
