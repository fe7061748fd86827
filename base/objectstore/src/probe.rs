//! Checks that a store keeps the promises on which the safety of data depends, and that its clock and this machine's
//! agree. The check uses objects of its own.

use bytes::Bytes;
use env::Moment;
use futures::future::join_all;
use object_store::{GetOptions, GetRange};
use storage::{Error, FileName, Files, Kind, Outcome, Result, Version};

use crate::Bucket;
use crate::swap::{NOT_IMPLEMENTED, Repeat};

/// Number of requests that are sent at the same time, of which one may succeed.
const RACERS: usize = 8;

impl Bucket {
    /// Checks conditional puts, ranges and listings, and compares the clocks. Fails when the store cannot be reached or
    /// breaks a promise, and at once when it refuses a request for good, because the bucket or the key is wrong. Fails,
    /// too, if this machine's clock differs so much from the store's that the store refuses requests; logs a warning if
    /// the difference is smaller, but large. Fails within seconds if there are [no keys](Bucket::check_keys).
    ///
    /// If a store ignores a condition, two servers could both believe that they have committed. If a listing misses what
    /// was just written, a server could overlook a file list, a link or a snapshot. The check takes about 27 requests, in the
    /// time of 13, and leaves no objects unless a deletion fails.
    pub fn probe(&self) -> Result<()> {
        self.check_keys()?;
        let folder = FileName::new(format!("bellows.probe.{:016x}", env::World::real().random()));
        let name = folder.join("object");
        // If the store did not answer for that long, the deletion must not wait for it once more.
        let give_up = self.deadline();
        let outcome = self.try_conditions(&folder, &name, give_up);
        let removed = match outcome {
            Ok(()) => self.delete(&name),
            Err(_) => self.ending_at(give_up).delete(&name),
        };
        // A wrong clock may be the cause of the other errors.
        self.shared.clock.check().map_err(|why| {
            Error::new(Kind::Failed, Outcome::DidNotHappen, &folder, "probe the store with").because(why)
        })?;
        outcome.and(removed)?;
        self.try_absence(&folder)
    }

    fn try_conditions(&self, folder: &FileName, name: &FileName, give_up: Moment) -> Result<()> {
        let broken = |what: &str| broken(name, what);
        let first = self.try_swap(name, None, b"first")?;
        match self.try_swap(name, None, b"second") {
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
            Ok(_) => return broken("it ignores If-None-Match: an object was created twice"),
        }
        let other = Version::new(*b"\"00000000000000000000000000000000\"");
        match self.try_swap(name, Some(&other), b"third") {
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
            Ok(_) => {
                return broken("it ignores If-Match: an object was replaced that was not the expected one");
            }
        }
        // A store may check a condition and then write, without a lock. Then it keeps its promise until two servers write at the
        // same time.
        let race = folder.join("race");
        let created = self.race(&race, None);
        created
            .and_then(|_| self.delete(&race))
            .inspect_err(|_| drop(self.ending_at(give_up).delete(&race)))?;
        let replaced = self.race(name, Some(&first))?;
        self.try_swap(name, Some(&replaced), b"0123456789")?;
        if self.load(name, 100)?.content != b"0123456789" {
            return broken("it returned an old object after it was replaced");
        }
        self.try_presence(folder, name)?;
        self.try_range(name, GetRange::Bounded(3..7), b"3456", broken)?;
        match self.shared.options.service.opening_range() {
            // Each opening of a file asks for its last bytes.
            GetRange::Suffix(_) => self.try_range(name, GetRange::Suffix(4), b"6789", broken),
            _ => Ok(()),
        }
    }

    /// Sends several conditional writes of an object at the same time, as [`swap`](Files::swap) does, and returns the new
    /// version. Fails unless exactly one of them succeeds.
    fn race(&self, name: &FileName, expected: Option<&Version>) -> Result<Version> {
        let (bucket, file, path) = (self.clone(), name.clone(), self.path(name, "swap")?);
        let expected = expected.cloned();
        let condition = if expected.is_none() { "If-None-Match" } else { "If-Match" };
        let outcomes: Vec<Result<Version>> = self.wait(name, async move {
            let racers = (0..RACERS).map(|racer| {
                let (new, repeat) = (Bytes::from(format!("racer {racer}")), Repeat::UnlessPermanent);
                bucket.swap_object(&file, &path, expected.as_ref(), new, false, repeat)
            });
            Ok::<_, Error>(join_all(racers).await)
        })?;
        let mut won = Vec::new();
        for outcome in outcomes {
            match outcome {
                Ok(version) => won.push(version),
                Err(error) if error.kind() == Kind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        match (won.pop(), won.len()) {
            (Some(version), 0) => Ok(version),
            (_, others) => broken(
                name,
                &format!(
                    "it checks {condition} without a lock: of {RACERS} writes at the same time {} succeeded, expected 1",
                    if others == 0 { 0 } else { others + 1 }
                ),
            ),
        }
    }

    /// Like [`swap`](Files::swap), but fails at once if the store says that it will never do this.
    fn try_swap(&self, name: &FileName, expected: Option<&Version>, new: &'static [u8]) -> Result<Version> {
        let (bucket, file, path) = (self.clone(), name.clone(), self.path(name, "swap")?);
        let (expected, new) = (expected.cloned(), Bytes::from_static(new));
        let repeat = Repeat::UnlessPermanent;
        let swapped = self.wait(name, async move {
            bucket.swap_object(&file, &path, expected.as_ref(), new, false, repeat).await
        });
        match swapped {
            Err(error) if error.to_string().contains(NOT_IMPLEMENTED) => broken(
                name,
                &format!("it has no conditional writes (If-None-Match and If-Match of a PUT): {error}"),
            ),
            swapped => swapped,
        }
    }

    fn try_range(
        &self,
        name: &FileName,
        range: GetRange,
        expected: &'static [u8],
        broken: impl Fn(&str) -> Result<()>,
    ) -> Result<()> {
        let (bucket, path) = (self.clone(), self.path(name, "read")?);
        let asked = range.to_string();
        let found = self.wait(name, async move {
            let get = || async {
                let options = GetOptions { range: Some(range.clone()), ..GetOptions::default() };
                bucket.shared.once.get_opts(&path, options).await?.bytes().await
            };
            bucket.repeated(bucket.deadline(), get).await
        });
        match found {
            Ok(bytes) if &bytes[..] == expected => Ok(()),
            Ok(_) => broken("it returned other bytes than those of the range that was asked for"),
            Err(error) => broken(&format!("it cannot read the range {asked}: {error}")),
        }
    }

    fn listed(&self, folder: &FileName) -> Result<Vec<FileName>> {
        Ok(self.list(folder)?.into_iter().map(|entry| entry.name).collect())
    }

    /// Checks that a listing of `folder` has an object that was written before it.
    fn try_presence(&self, folder: &FileName, name: &FileName) -> Result<()> {
        match self.listed(folder)?.contains(name) {
            true => Ok(()),
            false => broken(folder, "its listing misses an object that was written before"),
        }
    }

    /// Checks that a listing of `folder` has no object that was deleted before it. If a request has arrived twice, an object is
    /// there again, and is deleted again.
    fn try_absence(&self, folder: &FileName) -> Result<()> {
        let back = self.listed(folder)?;
        back.iter().try_for_each(|name| self.delete(name))?;
        match back.is_empty() || self.listed(folder)?.is_empty() {
            true => Ok(()),
            false => broken(folder, "its listing shows an object that was deleted before"),
        }
    }
}

/// Returns the error of a store that breaks a promise; `what` says which one.
fn broken<T>(name: &FileName, what: &str) -> Result<T> {
    Err(Error::new(Kind::Failed, Outcome::DidNotHappen, name, "probe the store with").because(format!(
        "{what}; use a store with conditional writes and listings that are up to date: Amazon S3, Azure Blob storage, MinIO, Ceph or versitygw 1.8 or newer"
    )))
}

#[cfg(test)]
#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a store with faults")]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::time::Duration;

    use env::sync::Mutex;

    use super::*;
    use crate::{Options, S3, Service};

    /// What is wrong with a store.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fault {
        Nothing,
        /// It checks this condition of a PUT, and writes a while later.
        ChecksWithoutLock(&'static str),
        HasNoSuffixRanges,
    }

    /// The objects of a store, each with the number of its version.
    type Objects = Arc<Mutex<BTreeMap<String, (Vec<u8>, u64)>>>;

    fn store(fault: Fault) -> Bucket {
        store_with_objects(fault).0
    }

    fn store_with_objects(fault: Fault) -> (Bucket, Objects) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let objects = Objects::default();
        let served = Arc::clone(&objects);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, objects) = (client.expect("accepted"), Arc::clone(&served));
                std::thread::spawn(move || serve(&client, &objects, fault));
            }
        });
        let keys = Some(("a".to_owned(), "b".to_owned()));
        let service = Service::S3(S3 { keys, path_style: true, ..S3::default() });
        let settle_time = Duration::from_secs(10);
        let options = Options { endpoint: Some(endpoint), service, settle_time, ..Options::new("b", "x") };
        (Bucket::new(options).expect("a client"), objects)
    }

    fn serve(client: &TcpStream, objects: &Objects, fault: Fault) {
        let (mut reader, mut writer) = (BufReader::new(client), client);
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if reader.read_until(b'\n', &mut head).unwrap_or(0) == 0 {
                    return;
                }
            }
            let head = String::from_utf8(head).expect("text");
            let header = |name: &str| {
                let of = |line: &str| {
                    let (found, value) = line.split_once(':')?;
                    found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
                };
                head.lines().find_map(of)
            };
            let length = header("content-length").map_or(0, |length| length.parse().expect("a number"));
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("the whole body");
            let (method, rest) = head.split_once(' ').expect("a request");
            let path = rest.split(' ').next().expect("a path");
            let (status, further, content) = answer(objects, fault, method, path, &header, body);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{further}\r\n", content.len());
            if writer.write_all(&[head.as_bytes(), &content].concat()).is_err() {
                return;
            }
        }
    }

    /// Returns the status of an answer, its further headers, and its content.
    fn answer(
        objects: &Objects,
        fault: Fault,
        method: &str,
        path: &str,
        header: &impl Fn(&str) -> Option<String>,
        body: Vec<u8>,
    ) -> (&'static str, String, Vec<u8>) {
        let none = Vec::new();
        let (key, query) = path.split_once('?').unwrap_or((path, ""));
        if query.contains("list-type=2") {
            let of = |(key, (content, version)): (&String, &(Vec<u8>, u64))| {
                let key = key.trim_start_matches("/b/");
                format!(
                    "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                     <ETag>\"{version}\"</ETag></Contents>",
                    content.len()
                )
            };
            let entries: String = objects.lock().iter().map(of).collect();
            let text = format!("<ListBucketResult>{entries}</ListBucketResult>");
            return ("200 OK", String::new(), text.into_bytes());
        }
        match method {
            "PUT" => {
                let is_met = || match (header("if-none-match"), header("if-match")) {
                    (Some(_), _) => !objects.lock().contains_key(key),
                    (_, Some(tag)) => {
                        objects.lock().get(key).is_some_and(|(_, version)| tag == format!("\"{version}\""))
                    }
                    _ => true,
                };
                let waits = matches!(fault, Fault::ChecksWithoutLock(name) if header(name).is_some());
                if waits && is_met() {
                    std::thread::sleep(Duration::from_millis(100));
                } else {
                    // One condition after the other is checked and followed by its write.
                    static WRITING: Mutex<()> = Mutex::new(());
                    let _alone = WRITING.lock();
                    if !is_met() {
                        return ("412 Precondition Failed", String::new(), none);
                    }
                    return put(objects, key, body);
                }
                put(objects, key, body)
            }
            "DELETE" => {
                objects.lock().remove(key);
                ("204 No Content", String::new(), none)
            }
            "POST" => {
                let text = String::from_utf8(body).expect("text");
                let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
                let deleted = |key: &str| {
                    objects.lock().remove(&format!("/b/{key}"));
                    format!("<Deleted><Key>{key}</Key></Deleted>")
                };
                let deleted: String = keys.map(deleted).collect();
                ("200 OK", String::new(), format!("<DeleteResult>{deleted}</DeleteResult>").into_bytes())
            }
            _ => {
                let Some((content, version)) = objects.lock().get(key).cloned() else {
                    let text = "<Error><Code>NoSuchKey</Code></Error>";
                    return ("404 Not Found", String::new(), text.into());
                };
                let tag = format!("ETag: \"{version}\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n");
                let Some(range) = header("range") else { return ("200 OK", tag, content) };
                let (first, last) = range.trim_start_matches("bytes=").split_once('-').expect("a range");
                let size = content.len();
                let (begin, end) = match first.parse::<usize>() {
                    Ok(first) => (first, last.parse().map_or(size, |last: usize| size.min(last + 1))),
                    Err(_) if fault == Fault::HasNoSuffixRanges => {
                        return ("416 Range Not Satisfiable", String::new(), none);
                    }
                    Err(_) => (size - size.min(last.parse().expect("a number")), size),
                };
                let tag = format!("{tag}Content-Range: bytes {begin}-{}/{size}\r\n", end - 1);
                ("206 Partial Content", tag, content[begin..end].to_vec())
            }
        }
    }

    fn put(objects: &Objects, key: &str, body: Vec<u8>) -> (&'static str, String, Vec<u8>) {
        let mut objects = objects.lock();
        let version = objects.values().map(|(_, version)| *version).max().unwrap_or(0) + 1;
        objects.insert(key.to_owned(), (body, version));
        ("200 OK", format!("ETag: \"{version}\"\r\n"), Vec::new())
    }

    #[test]
    fn a_store_that_checks_conditions_without_a_lock_is_refused() {
        let good = store(Fault::Nothing);
        good.probe().expect("it keeps its promises");
        assert_eq!(good.list(&FileName::root()).expect("listed"), []);
        for (header, named) in [("if-none-match", "If-None-Match"), ("if-match", "If-Match")] {
            let racy = store(Fault::ChecksWithoutLock(header));
            let error = racy.probe().expect_err("two servers would both commit").to_string();
            assert!(error.contains(&format!("checks {named} without a lock: of 8 writes")), "{error}");
            assert_eq!(racy.list(&FileName::root()).expect("listed"), [], "{named}");
        }
    }

    #[test]
    fn a_store_without_ranges_from_the_end_is_refused() {
        let error = store(Fault::HasNoSuffixRanges).probe().expect_err("no file could be opened").to_string();
        assert!(error.contains("cannot read the range bytes=-4"), "{error}");
    }

    #[test]
    fn a_key_that_the_library_cannot_list_is_named_with_what_to_do() {
        let (bucket, objects) = store_with_objects(Fault::Nothing);
        objects.lock().insert("/b/x/WALs//y".to_owned(), (b"z".to_vec(), 1));
        let error = bucket.list(&FileName::new("WALs")).expect_err("it is no name").to_string();
        assert!(error.contains("x/WALs//y") && error.contains("delete this object"), "{error}");
    }
}
