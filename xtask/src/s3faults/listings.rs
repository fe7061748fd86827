//! Listings that are out of date: they miss objects that were created, and show objects that were deleted, within the
//! last seconds.
//!
//! The store's own listing is up to date. The proxy records what changes, and edits the replies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::message::Message;
use super::request::{RequestKind, key, parameter};

/// The begin and the end of an object in the reply to a listing.
const ENTRY: [&str; 2] = ["<Contents>", "</Contents>"];
const END: &str = "</ListBucketResult>";
/// Part of the keys that the server's start probe lists. A store whose listings of these are out of date is refused.
const PROBE: &str = "bellows.probe.";

struct Object {
    /// `None` if the object was made of parts.
    size: Option<u64>,
    created: Instant,
    deleted: Option<Instant>,
}

/// The recent changes of a store.
pub(crate) struct Listings {
    /// How far a listing may be out of date.
    window: Duration,
    objects: BTreeMap<String, Object>,
}

impl Listings {
    pub(crate) fn new(window: Duration) -> Listings {
        Listings { window, objects: BTreeMap::new() }
    }

    /// Records a request that the store has carried out.
    pub(crate) fn record(&mut self, request: &Message, now: Instant) {
        let (path, _) = request.target();
        match RequestKind::of(request) {
            RequestKind::Put => self.put(key(path), Some(request.body.len() as u64), now),
            RequestKind::Complete => self.put(key(path), None, now),
            RequestKind::Delete => self.delete(&key(path), now),
            RequestKind::BulkDelete => {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                for part in body.split("<Key>").skip(1) {
                    self.delete(part.split("</Key>").next().unwrap_or_default(), now);
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, key: String, size: Option<u64>, now: Instant) {
        let object = self.objects.entry(key).or_insert(Object { size, created: now, deleted: None });
        object.size = size;
        if object.deleted.take().is_some() {
            object.created = now;
        }
    }

    fn delete(&mut self, key: &str, now: Instant) {
        if let Some(object) = self.objects.get_mut(key) {
            object.deleted.get_or_insert(now);
        }
        let window = self.window;
        self.objects.retain(|_, object| object.deleted.is_none_or(|at| now.duration_since(at) < window));
    }

    /// Edits the reply to a listing. Returns how many objects were omitted and added.
    pub(crate) fn edit(&self, request: &Message, reply: &mut Message, now: Instant) -> (u64, u64) {
        let (_, query) = request.target();
        let prefix = parameter(query, "prefix").unwrap_or_default();
        if prefix.contains(PROBE) {
            return (0, 0);
        }
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        let is_recent = |at: Instant| now.duration_since(at) < self.window;
        let (mut entries, mut rest, mut tail) = (BTreeMap::new(), String::new(), &text[..]);
        let mut omitted = 0;
        while let Some((before, after)) = tail.split_once(ENTRY[0]) {
            let Some((entry, after)) = after.split_once(ENTRY[1]) else { break };
            rest += before;
            tail = after;
            let key = entry.split("<Key>").nth(1).and_then(|part| part.split("</Key>").next());
            let key = key.unwrap_or_default().to_owned();
            if self.objects.get(&key).is_some_and(|object| is_recent(object.created)) {
                omitted += 1;
            } else {
                entries.insert(key, entry.to_owned());
            }
        }
        rest += tail;
        // A reply in several pages gets no further objects: they would have to be on the right page.
        let is_whole =
            !rest.contains("<IsTruncated>true") && parameter(query, "continuation-token").is_none();
        let after = parameter(query, "start-after").unwrap_or_default();
        let mut added = 0;
        let recent = self.objects.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        for (key, object) in recent.filter(|(key, _)| is_whole && **key > after) {
            let Some(size) = object.size.filter(|_| object.deleted.is_some_and(is_recent)) else { continue };
            if !entries.contains_key(key) && !is_recent(object.created) {
                added += 1;
                entries.insert(
                    key.clone(),
                    format!(
                        "<Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                         <ETag>\"00000000000000000000000000000000\"</ETag><Size>{size}</Size>\
                         <StorageClass>STANDARD</StorageClass>"
                    ),
                );
            }
        }
        let entries: String =
            entries.values().map(|entry| format!("{}{entry}{}", ENTRY[0], ENTRY[1])).collect();
        if let Some((before, after)) = rest.split_once(END) {
            reply.set_body(format!("{before}{entries}{END}{after}").into_bytes());
        }
        (omitted, added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str, body: &str) -> Message {
        let length = body.len();
        let text = format!("{line} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
        Message::request(&mut text.as_bytes()).unwrap().unwrap()
    }

    fn reply(keys: &[&str]) -> Message {
        let entries: String =
            keys.iter().map(|key| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>")).collect();
        let body = format!("<ListBucketResult><Name>b</Name>{entries}{END}");
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        Message::reply(&mut text.as_bytes(), "GET").unwrap()
    }

    fn keys(reply: &Message) -> Vec<String> {
        let body = String::from_utf8(reply.body.clone()).unwrap();
        body.split("<Key>").skip(1).map(|part| part.split("</Key>").next().unwrap().to_owned()).collect()
    }

    #[test]
    fn recent_changes_are_missing_for_a_while() {
        let window = Duration::from_secs(3);
        let (mut listings, began) = (Listings::new(window), Instant::now());
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        listings.record(&request("PUT /b/f/old", "x"), at(0));
        listings.record(&request("PUT /b/f/gone", "x"), at(0));
        listings.record(&request("PUT /b/f/gone-too", "x"), at(0));
        listings.record(&request("PUT /b/f/new", "x"), at(9));
        listings.record(&request("PUT /b/f/old", "again"), at(9));
        listings.record(&request("DELETE /b/f/gone", ""), at(9));
        let bulk = "<Delete><Object><Key>f/gone-too</Key></Object></Delete>";
        listings.record(&request("POST /b?delete", bulk), at(9));
        let list = request("GET /b?list-type=2&prefix=f%2F", "");
        let listed = |listings: &Listings, list: &Message, seconds| {
            let mut reply = reply(&["f/new", "f/old"]);
            let changed = listings.edit(list, &mut reply, at(seconds));
            (keys(&reply), changed)
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(listed(&listings, &list, 10), (names(&["f/gone", "f/gone-too", "f/old"]), (1, 2)));
        assert_eq!(listed(&listings, &list, 13), (names(&["f/new", "f/old"]), (0, 0)));
        let other = request("GET /b?list-type=2&prefix=g", "");
        assert_eq!(listed(&listings, &other, 10).1, (1, 0), "what is gone is in another folder");
        let probe = request("GET /b?list-type=2&prefix=f/bellows.probe.1", "");
        assert_eq!(listed(&listings, &probe, 10).1, (0, 0));
    }
}
