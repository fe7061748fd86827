//! The kinds of requests of an S3 client, and the keys that they name.

use super::message::Message;

/// What a request wants of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequestKind {
    Get,
    Head,
    List,
    Put,
    Delete,
    /// Deletes many objects.
    BulkDelete,
    /// Begins a multipart upload.
    Begin,
    Part,
    /// Makes an object of the parts.
    Complete,
    Abort,
    Other,
}

impl RequestKind {
    pub(crate) fn of(request: &Message) -> RequestKind {
        let (path, query) = request.target();
        let has = |name: &str| query.split('&').any(|part| part.split('=').next() == Some(name));
        let is_bucket = !path.trim_matches('/').contains('/');
        match request.method() {
            "GET" if is_bucket => RequestKind::List,
            "GET" => RequestKind::Get,
            "HEAD" => RequestKind::Head,
            "PUT" if has("partNumber") => RequestKind::Part,
            "PUT" => RequestKind::Put,
            "POST" if has("delete") => RequestKind::BulkDelete,
            "POST" if has("uploads") => RequestKind::Begin,
            "POST" if has("uploadId") => RequestKind::Complete,
            "DELETE" if has("uploadId") => RequestKind::Abort,
            "DELETE" => RequestKind::Delete,
            _ => RequestKind::Other,
        }
    }

    /// Returns whether such a request changes the store.
    pub(crate) fn is_change(self) -> bool {
        !matches!(self, RequestKind::Get | RequestKind::Head | RequestKind::List | RequestKind::Other)
    }

    /// Returns whether such a request deletes objects.
    pub(crate) fn is_deletion(self) -> bool {
        matches!(self, RequestKind::Delete | RequestKind::BulkDelete)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            RequestKind::Get => "GET",
            RequestKind::Head => "HEAD",
            RequestKind::List => "LIST",
            RequestKind::Put => "PUT",
            RequestKind::Delete => "DELETE",
            RequestKind::BulkDelete => "BULK-DELETE",
            RequestKind::Begin => "MULTIPART-BEGIN",
            RequestKind::Part => "PART",
            RequestKind::Complete => "MULTIPART-COMPLETE",
            RequestKind::Abort => "MULTIPART-ABORT",
            RequestKind::Other => "OTHER",
        }
    }
}

/// Returns the key that the path of a request names; empty for the bucket itself.
pub(crate) fn key(path: &str) -> String {
    let path = path.trim_start_matches('/');
    decoded(path.split_once('/').map_or("", |(_, key)| key))
}

/// Returns the value of a parameter of a query.
pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|part| part.split_once('='));
    pairs.find(|(this, _)| *this == name).map(|(_, value)| decoded(&value.replace('+', " ")))
}

/// Decodes %XX.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let code = (*first == b'%').then(|| more.get(..2)).flatten();
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        for (line, kind) in [
            ("GET /b?list-type=2&prefix=x", RequestKind::List),
            ("GET /b/?list-type=2", RequestKind::List),
            ("GET /b/k", RequestKind::Get),
            ("HEAD /b/k", RequestKind::Head),
            ("PUT /b/k", RequestKind::Put),
            ("PUT /b/k?partNumber=2&uploadId=u", RequestKind::Part),
            ("POST /b?delete", RequestKind::BulkDelete),
            ("POST /b?delete=", RequestKind::BulkDelete),
            ("POST /b/k?uploads", RequestKind::Begin),
            ("POST /b/k?uploadId=u", RequestKind::Complete),
            ("DELETE /b/k?uploadId=u", RequestKind::Abort),
            ("DELETE /b/k", RequestKind::Delete),
        ] {
            let text = format!("{line} HTTP/1.1\r\n\r\n");
            let request = Message::request(&mut text.as_bytes()).unwrap().unwrap();
            assert_eq!(RequestKind::of(&request), kind, "{line}");
        }
    }

    #[test]
    fn keys_and_parameters_are_decoded() {
        assert_eq!(key("/b/a%20b/c%"), "a b/c%");
        assert_eq!(key("/b"), "");
        assert_eq!(parameter("list-type=2&prefix=a%2Fb", "prefix").as_deref(), Some("a/b"));
        assert_eq!(parameter("list-type=2", "prefix"), None);
    }
}
