//! Keys that another service gives: they are fetched with requests, and this shows early that there are none.
//!
//! A machine without any keys looks like an instance in a cloud whose metadata are slow: nothing answers at the address of
//! the metadata, and the library asks again and again. So a start asks once, before its first request to the store.

use std::time::Duration;

use object_store::aws::AwsCredentialProvider;
use storage::{Error, FileName, Kind, Outcome, Result};

use crate::{Bucket, with_causes};

/// In the message of an error that means that there are no keys.
pub const NO_KEYS: &str = "no credentials";

/// Maximum time in which the metadata of an instance must give keys. They are on the same machine, and answer in
/// milliseconds.
const INSTANCE_PATIENCE: Duration = Duration::from_secs(4);

/// Keys of a web identity, or of the metadata of a container or an instance.
#[derive(Clone, Debug)]
pub(crate) struct RemoteKeys {
    provider: AwsCredentialProvider,
    source: Source,
    /// Maximum time in which the source must give keys.
    patience: Duration,
}

/// Who gives the keys, in the order in which the library tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    WebIdentity,
    Container,
    Instance,
}

impl Source {
    /// Returns the source that the library uses with these variables of the environment.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Source {
        let are_set = |names: &[&str]| names.iter().all(|name| variable(name).is_some());
        if are_set(&["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"]) {
            Source::WebIdentity
        } else if are_set(&["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"])
            || are_set(&["AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"])
        {
            Source::Container
        } else {
            Source::Instance
        }
    }

    /// Returns what was looked at and has no keys, up to this source.
    fn looked_at(self) -> &'static str {
        match self {
            Source::WebIdentity => "and the web identity of AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN",
            Source::Container => {
                "no web identity (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), and the metadata of the container \
                 (AWS_CONTAINER_CREDENTIALS_…)"
            }
            Source::Instance => {
                "no web identity (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), no container \
                 (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, or …_FULL_URI with a token file), and the metadata of this instance"
            }
        }
    }
}

impl RemoteKeys {
    /// `settle_time` is how long the library repeats a request, and `variable` returns a variable of the environment.
    pub(crate) fn new(
        provider: AwsCredentialProvider,
        settle_time: Duration,
        variable: impl Fn(&str) -> Option<String>,
    ) -> RemoteKeys {
        let source = Source::of(variable);
        let patience = match source {
            Source::Instance => INSTANCE_PATIENCE.min(settle_time),
            // An operator has named these, so they exist.
            Source::WebIdentity | Source::Container => settle_time,
        };
        RemoteKeys { provider, source, patience }
    }

    /// Fails with what was looked at if there are no keys.
    async fn check(&self) -> std::result::Result<(), String> {
        let why = match env::timeout(self.patience, self.provider.get_credential()).await {
            Some(Ok(_)) => return Ok(()),
            Some(Err(error)) => with_causes(&error),
            None => format!("no answer within {:?}", self.patience),
        };
        Err(format!(
            "{NO_KEYS}: no fs.s3a.access.key and fs.s3a.secret.key, no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, no profile with \
             keys (AWS_PROFILE, ~/.aws/credentials, ~/.aws/config), {} gave none ({why})",
            self.source.looked_at()
        ))
    }
}

impl Bucket {
    /// Fails if the keys come from another service, and that gives none. Asks the metadata of an instance for some seconds
    /// only, because a machine that is none does not answer. Sends no request to the store.
    pub fn check_keys(&self) -> Result<()> {
        let Some(keys) = self.shared.remote_keys.clone() else { return Ok(()) };
        let root = FileName::root();
        self.wait(&root, async move { keys.check().await })
            .map_err(|why| Error::new(Kind::Failed, Outcome::DidNotHappen, &root, "open").because(why))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "metadata of an instance")]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use crate::{Options, S3, Service};

    use super::*;

    /// Returns a bucket that finds no keys in its options and in the variables `further`, and its metadata at `url`.
    fn bucket(url: &str, further: &[(&str, &str)]) -> Bucket {
        let service = Service::S3(S3 { path_style: true, ..S3::default() });
        let options = Options { service, settle_time: Duration::from_millis(700), ..Options::new("b", "") };
        let variables = [("AWS_METADATA_ENDPOINT", url)];
        Bucket::with_environment(options, |name| {
            let set = variables.iter().chain(further).find(|(set, _)| *set == name);
            set.map(|(_, value)| (*value).to_owned())
        })
        .expect("a client")
    }

    #[test]
    fn a_machine_without_keys_learns_soon_where_they_were_looked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let refused = || bucket(&url, &[]).probe().expect_err("there are no keys").to_string();
        let silent = refused();
        drop(listener);
        let closed = refused();
        for source in [
            NO_KEYS,
            "fs.s3a.access.key",
            "AWS_ACCESS_KEY_ID",
            "~/.aws/credentials",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "the metadata of this instance gave none (",
        ] {
            assert!(silent.contains(source) && closed.contains(source), "{source}: {silent}");
        }
        assert!(silent.contains("no answer within 700ms"), "{silent}");
    }

    #[test]
    fn keys_of_metadata_and_of_the_environment_are_no_error() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let answers = env::spawn_thread("metadata", env::Priority::Background, move || {
            let keys = r#"{"AccessKeyId":"a","SecretAccessKey":"b","Token":"c","Expiration":"2999-01-01T00:00:00Z"}"#;
            for text in ["token", "role", keys] {
                let (mut stream, _) = listener.accept().expect("a request");
                let _request = stream.read(&mut [0; 4096]).expect("readable");
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
                stream.write_all(format!("{head}{text}").as_bytes()).expect("writable");
            }
        });
        bucket(&url, &[]).check_keys().expect("the metadata have keys");
        answers.expect("a thread").join().expect("it answered");
        let own = bucket(&url, &[("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")]);
        own.check_keys().expect("nobody is asked");
    }

    #[test]
    fn the_source_is_the_one_that_the_library_uses() {
        let of = |names: &[&str]| Source::of(|name| names.contains(&name).then(|| "x".to_owned()));
        assert_eq!(of(&[]), Source::Instance);
        assert_eq!(of(&["AWS_WEB_IDENTITY_TOKEN_FILE"]), Source::Instance);
        assert_eq!(of(&["AWS_CONTAINER_CREDENTIALS_FULL_URI"]), Source::Instance);
        assert_eq!(of(&["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]), Source::Container);
        let both = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
        assert_eq!(of(&both), Source::WebIdentity);
    }
}
