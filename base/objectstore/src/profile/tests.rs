#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "files of this machine, and a store"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use env::WallTime;
use storage::{FileName, Files, Kind as Failure};

use super::*;
use crate::{Bucket, Options, S3, Service};

/// A folder for the two files, which is removed at the end.
struct Home(PathBuf);

impl Home {
    fn new() -> Home {
        let folder = std::env::temp_dir().join(format!("bellows-profile-{:x}", World::real().random()));
        fs::create_dir_all(folder.join(".aws")).expect("the test's own folder");
        Home(folder)
    }

    fn with(self, file: &str, text: &str) -> Home {
        fs::write(self.0.join(".aws").join(file), text).expect("written");
        self
    }

    fn set_key(&self, key: &str) {
        let text = format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n");
        fs::write(self.0.join(".aws/credentials"), text).expect("written");
    }

    /// Returns the environment of a process whose home folder this is.
    fn environment(&self, further: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> + use<> {
        let mut variables = BTreeMap::from([("HOME".to_owned(), self.0.display().to_string())]);
        variables.extend(further.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
        move |name| variables.get(name).cloned()
    }

    fn profile(&self, name: &str) -> Profile {
        Profile::of(self.environment(&[("AWS_PROFILE", name)]))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the test's own folder");
    }
}

const CREDENTIALS: &str = "\u{feff}# keys\n\
    [default]\r\n  aws_access_key_id = A1\r\n  AWS_SECRET_ACCESS_KEY=S/1+x= ; until May\r\n\
    ; a comment\n\
    [ dev ]  # ours\naws_access_key_id=A2\naws_access_key_id=A3\naws_secret_access_key = S#3\n\
    aws_session_token = T==\n[empty]\n";

const CONFIG: &str = "[default]\nregion = eu-west-1\n\
    [profile dev]\nregion = eu-north-1\ns3 =\n    max_concurrent_requests = 20\n    region = nested\n\
    aws_access_key_id = not this one\n\
    [dev]\nregion = no prefix\n\
    [profile \"two words\"]\naws_access_key_id = A4\naws_secret_access_key = S4\n\
    [sso-session corp]\nsso_region = us-east-1\n";

#[test]
fn keys_token_and_region_are_those_of_the_profile() {
    let home = Home::new().with("credentials", CREDENTIALS).with("config", CONFIG);
    for (name, key, secret, token, region, file) in [
        ("", "A1", "S/1+x=", None, Some("eu-west-1"), ".aws/credentials"),
        ("dev", "A3", "S#3", Some("T=="), Some("eu-north-1"), ".aws/credentials"),
        ("two words", "A4", "S4", None, None, ".aws/config"),
    ] {
        let profile = home.profile(name);
        let (keys, from) = profile.keys().expect("good").expect("keys");
        assert_eq!((&keys.key_id[..], &keys.secret_key[..], keys.token.as_deref()), (key, secret, token));
        assert_eq!(profile.region().as_deref(), region, "{name}");
        assert_eq!(from, home.0.join(file).display().to_string());
    }
    assert!(home.profile("empty").keys().expect("it exists").is_none());
}

#[test]
fn variables_name_other_files_and_absent_files_are_empty() {
    let home = Home::new().with("other", CREDENTIALS);
    let profile = Profile::of(home.environment(&[]));
    assert!(profile.keys().expect("no files").is_none());
    let named = [("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/other"), ("AWS_CONFIG_FILE", "/nowhere/config")];
    let (keys, _) = Profile::of(home.environment(&named)).keys().expect("good").expect("keys");
    assert_eq!(keys.key_id, "A1");
    assert!(Profile::of(|_| None).keys().expect("no home").is_none());
    // A folder in the place of a file cannot be read.
    fs::create_dir(home.0.join(".aws/config")).expect("new");
    assert!(Profile::of(home.environment(&[])).keys().expect("the default place").is_none());
    let named = [("AWS_CONFIG_FILE", "~/.aws/config")];
    let error = Profile::of(home.environment(&named)).keys().expect_err("a folder");
    assert!(error.contains("make the file readable"), "{error}");
}

#[test]
fn what_cannot_be_used_is_refused_with_profile_file_and_remedy() {
    for (config, words) in [
        (
            "[profile p]\nrole_arn = r\nsource_profile = q",
            ["assumes a role (role_arn)", "export-credentials"],
        ),
        ("[profile p]\nrole_arn = r\naws_access_key_id = A", ["assumes a role", "AWS_PROFILE"]),
        ("[profile p]\nsso_session = corp", ["uses SSO (sso_session)", "--profile p"]),
        ("[profile p]\nsso_start_url = x", ["uses SSO", "put aws_access_key_id"]),
        ("[profile p]\ncredential_process = /bin/x", ["runs a program", "export-credentials"]),
        ("[profile p]\naws_access_key_id = A", ["has aws_access_key_id and no aws_secret_access_key", "p"]),
        ("[profile p]\naws_secret_access_key = A", ["no aws_access_key_id", "p"]),
        ("[profile q]\nregion = x", ["AWS_PROFILE is \"p\", and no file has this profile", "[profile p]"]),
        ("[profile p]\nregion", ["config:2: expected [section] or name = value", ""]),
        ("\n[profile p\nregion = x", ["config:2: expected ]", ""]),
        ("region = x\n[profile p]", ["config:1: expected a [section]", ""]),
    ] {
        let home = Home::new().with("config", config);
        let error = home.profile("p").keys().err().unwrap_or_else(|| panic!("{config} is refused"));
        assert!(words.iter().all(|words| error.contains(words)), "{error}");
        assert!(error.contains(&home.0.join(".aws/config").display().to_string()), "{error}");
    }
    let home = Home::new()
        .with("config", "[profile p]\nsso_session = corp")
        .with("credentials", "[p]\naws_access_key_id = A\naws_secret_access_key = S");
    assert!(home.profile("p").keys().expect("its keys are there").is_some());
}

#[test]
fn keys_are_read_again_after_a_minute_or_a_refusal_and_kept_if_that_fails() {
    let home = Home::new();
    home.set_key("one");
    let world = World::simulated(1, WallTime(0));
    let keys = ProfileKeys::read(&Profile::of(home.environment(&[])), world.clone());
    let keys = keys.expect("good").expect("keys");
    let runtime = env::Runtime::start("test", 1).expect("a thread");
    let current = || runtime.handle().block_on(keys.get_credential()).expect("keys").key_id.clone();
    home.set_key("two");
    world.advance(REREAD_TIME - Duration::from_millis(1));
    assert_eq!(current(), "one");
    world.advance(Duration::from_millis(1));
    assert_eq!((current().as_str(), keys.changes()), ("two", 1));
    assert!(!keys.have_changed_since(1), "the file is the same");
    home.set_key("three");
    assert!(keys.have_changed_since(1) && keys.have_changed_since(1));
    assert_eq!(current(), "three");
    fs::write(home.0.join(".aws/credentials"), "[default]\naws_acc").expect("written");
    world.advance(REREAD_TIME);
    assert_eq!((current().as_str(), keys.changes()), ("three", 2));
}

/// Starts a store of one object that accepts one access key, the one in the returned cell.
fn store_with_one_key() -> (String, Arc<Mutex<&'static str>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
    let accepted = Arc::new(Mutex::new("one"));
    let key = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("accepted");
            let mut request = [0; 16 << 10];
            let count = client.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..count]).into_owned();
            let (status, body) = match request.contains(&format!("Credential={}/", key.lock())) {
                true => ("200 OK", "content"),
                false => ("403 Forbidden", "<Error><Code>InvalidAccessKeyId</Code></Error>"),
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"e\"\r\nConnection: close\r\n\
                 Last-Modified: Sat, 28 Nov 2026 00:00:00 GMT\r\n\r\n{body}",
                body.len()
            );
            let _client_may_be_gone = client.write_all(answer.as_bytes());
        }
    });
    (endpoint, accepted)
}

#[test]
fn a_bucket_uses_the_profile_and_repeats_requests_when_its_keys_were_rotated() {
    let home = Home::new();
    home.set_key("one");
    let (endpoint, accepted) = store_with_one_key();
    let bucket = |further: &[(&str, &str)]| {
        let options = Options {
            endpoint: Some(endpoint.clone()),
            service: Service::S3(S3 { path_style: true, ..S3::default() }),
            settle_time: Duration::from_secs(5),
            ..Options::new("bucket", "")
        };
        Bucket::with_environment(options, home.environment(further)).expect("a client")
    };
    let name = FileName::new("file");
    let rotated = bucket(&[]);
    assert_eq!(rotated.load(&name, 100).expect("the profile's key").content, b"content");
    for key in ["two", "three"] {
        *accepted.lock() = key;
        let error = rotated.load(&name, 100).expect_err("the file has the previous key");
        assert_eq!(error.kind(), Failure::ReadOnly, "{error}");
        home.set_key(key);
        match key {
            "two" => drop(rotated.load(&name, 100).expect("the file is read again")),
            _ => drop(rotated.swap(&name, None, b"new").expect("the file is read again")),
        }
    }
    // A key of the environment counts before the profile.
    let of_environment = [("AWS_ACCESS_KEY_ID", "four"), ("AWS_SECRET_ACCESS_KEY", "x")];
    assert!(bucket(&of_environment).shared.profile_keys.is_none());
    let error = Bucket::with_environment(Options::new("b", ""), home.environment(&[("AWS_PROFILE", "no")]));
    let error = error.err().expect("there is no such profile").to_string();
    assert!(error.contains("AWS_PROFILE is \"no\""), "{error}");
}
