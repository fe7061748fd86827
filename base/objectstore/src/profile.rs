//! Keys from the files `credentials` and `config` that the AWS command line and its SDKs share.
//!
//! | file | place | variable that names another place | section of the profile NAME |
//! |---|---|---|---|
//! | credentials | `~/.aws/credentials` | `AWS_SHARED_CREDENTIALS_FILE` | `[NAME]` |
//! | config | `~/.aws/config` | `AWS_CONFIG_FILE` | `[profile NAME]`, or `[default]` |
//!
//! `AWS_PROFILE` names the profile; without it the profile is `default`. The access key, the secret key, the session
//! token and the region are read. A setting of the credentials file counts before one of the config file. All other
//! settings have no effect, with one exception: a profile whose keys come from elsewhere (a role, SSO, a program) is
//! refused, because the next source of credentials would be another identity.
//!
//! Whoever rotates the keys replaces the files. [`ProfileKeys`] reads the files again when it is asked for keys that it
//! has read more than [`REREAD_TIME`] ago, and when the store has refused a request. If the files then have other keys,
//! the request is repeated with these. If the files cannot be read, the server goes on with the keys that it has.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use env::sync::Mutex;
use env::{Moment, World};
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;

/// How long keys are used before the files are read again.
pub(crate) const REREAD_TIME: Duration = Duration::from_secs(60);

const ACCESS_KEY: &str = "aws_access_key_id";
const SECRET_KEY: &str = "aws_secret_access_key";
const SESSION_TOKEN: &str = "aws_session_token";

/// The settings of a section by their names, which are in lower case.
type Section = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Credentials,
    Config,
}

/// One of the two files.
#[derive(Clone, Debug)]
struct SharedFile {
    kind: Kind,
    path: PathBuf,
    /// Whether a variable names the file. A file at the default place may be unreadable, as it is for a service that
    /// has no access to home folders.
    is_named: bool,
}

/// A profile, and the files that may have it.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    name: String,
    /// Whether `AWS_PROFILE` names the profile. It must exist then.
    is_named: bool,
    /// In the order in which their settings count.
    files: Vec<SharedFile>,
}

/// The settings of a profile, each with the file that has it. `None` in place of the map means that no file has the
/// profile.
struct Settings(Option<BTreeMap<String, (String, PathBuf)>>);

impl Settings {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.as_ref()?.get(name).map(|(text, _)| text.as_str()).filter(|text| !text.is_empty())
    }

    fn file(&self, name: &str) -> String {
        let file = self.0.as_ref().and_then(|settings| settings.get(name));
        file.map(|(_, file)| file.display().to_string()).unwrap_or_default()
    }
}

impl Profile {
    /// Returns the profile that the variables of the environment name.
    pub(crate) fn of(variable: impl Fn(&str) -> Option<String>) -> Profile {
        let variable = |name: &str| variable(name).filter(|text| !text.is_empty());
        let home = variable("HOME").map(PathBuf::from);
        let file = |kind, named: &str, default: &str| {
            let named = variable(named).map(|path| match (path.strip_prefix("~/"), &home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(path),
            });
            let is_named = named.is_some();
            let path = named.or_else(|| Some(home.as_ref()?.join(".aws").join(default)))?;
            Some(SharedFile { kind, path, is_named })
        };
        let name = variable("AWS_PROFILE");
        let credentials = file(Kind::Credentials, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let config = file(Kind::Config, "AWS_CONFIG_FILE", "config");
        Profile {
            is_named: name.is_some(),
            name: name.unwrap_or_else(|| "default".to_owned()),
            files: credentials.into_iter().chain(config).collect(),
        }
    }

    /// Returns the region of the profile; `None` if it has none or cannot be read.
    pub(crate) fn region(&self) -> Option<String> {
        self.read().ok()?.text("region").map(str::to_owned)
    }

    /// Returns the keys of the profile and the file that has them; `None` if it has none. Fails with a message if the
    /// profile is named and absent, if its keys come from elsewhere, and if a file cannot be read or parsed.
    fn keys(&self) -> Result<Option<(AwsCredential, String)>, String> {
        let settings = self.read()?;
        if settings.0.is_none() && self.is_named {
            let places: Vec<_> = self.files.iter().map(|file| file.path.display().to_string()).collect();
            return Err(format!(
                "AWS_PROFILE is {:?}, and no file has this profile ({}); expected a section [{}] in the credentials file or [profile {}] \
                 in the config file",
                self.name,
                places.join(", "),
                self.name,
                self.name
            ));
        }
        let (access, secret) = (settings.text(ACCESS_KEY), settings.text(SECRET_KEY));
        for (setting, what, counts_before_keys) in [
            ("role_arn", "assumes a role", true),
            ("sso_session", "uses SSO", false),
            ("sso_start_url", "uses SSO", false),
            ("login_session", "uses a login session", false),
            ("credential_process", "runs a program for its keys", false),
        ] {
            if settings.text(setting).is_some() && (counts_before_keys || access.is_none()) {
                return Err(self.refused(setting, what, &settings.file(setting)));
            }
        }
        let (present, absent) = match (access, secret) {
            (None, None) => return Ok(None),
            (Some(access), Some(secret)) => {
                let token = settings.text(SESSION_TOKEN).map(str::to_owned);
                let keys = AwsCredential { key_id: access.to_owned(), secret_key: secret.to_owned(), token };
                return Ok(Some((keys, settings.file(ACCESS_KEY))));
            }
            (Some(_), None) => (ACCESS_KEY, SECRET_KEY),
            (None, Some(_)) => (SECRET_KEY, ACCESS_KEY),
        };
        Err(format!("profile {:?} of {} has {present} and no {absent}", self.name, settings.file(present)))
    }

    fn refused(&self, setting: &str, what: &str, file: &str) -> String {
        format!(
            "profile {:?} of {file} {what} ({setting}), which is not supported; put {ACCESS_KEY} and {SECRET_KEY} into a profile of its \
             own and name it in AWS_PROFILE, or export the keys: eval \"$(aws configure export-credentials --profile {} --format env)\"",
            self.name, self.name
        )
    }

    fn read(&self) -> Result<Settings, String> {
        let mut merged = None;
        for file in &self.files {
            let Some(text) = file.read()? else { continue };
            let sections = parse(&text)
                .map_err(|(line, expected)| format!("{}:{line}: {expected}", file.path.display()))?;
            let Some(section) = choose(sections, file.kind, &self.name) else { continue };
            let merged = merged.get_or_insert_with(BTreeMap::new);
            for (name, text) in section {
                merged.entry(name).or_insert_with(|| (text, file.path.clone()));
            }
        }
        Ok(Settings(merged))
    }
}

impl SharedFile {
    /// Returns the text of the file; `None` if there is no such file, or if it is at the default place and unreadable.
    fn read(&self) -> Result<Option<String>, String> {
        match storage::read_text(&self.path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) if !self.is_named => {
                tracing::warn!(file = %self.path.display(), %error, "a file of AWS profiles cannot be read; it is ignored");
                Ok(None)
            }
            Err(error) => Err(format!(
                "{}: {error}; make the file readable for this process, or unset the variable that names it",
                self.path.display()
            )),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the sections of a file by the text between their brackets. Sections of the same name are merged; of two
/// settings of the same name the later one counts. A line that is indented further than the setting before it belongs
/// to that setting, and is skipped. Fails with the number of the first line that is neither a section, a setting nor a
/// comment, and what was expected.
fn parse(text: &str) -> Result<BTreeMap<String, Section>, (usize, &'static str)> {
    let mut sections: BTreeMap<String, Section> = BTreeMap::new();
    let mut section = None;
    // The indentation of the setting before.
    let mut indent = None;
    for (line, number) in text.trim_start_matches('\u{feff}').lines().zip(1..) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        let this_indent = line.len() - line.trim_start().len();
        if indent.is_some_and(|indent| this_indent > indent) {
            continue;
        }
        if let Some(rest) = trimmed.strip_prefix('[') {
            let (name, _) =
                rest.split_once(']').ok_or((number, "expected ] at the end of a section's name"))?;
            section = Some(sections.entry(name.trim().to_owned()).or_default());
            indent = None;
            continue;
        }
        let (name, value) = trimmed.split_once('=').ok_or((number, "expected [section] or name = value"))?;
        let Some(section) = &mut section else {
            return Err((number, "expected a [section] before the first setting"));
        };
        section.insert(name.trim().to_ascii_lowercase(), without_comment(value).to_owned());
        indent = Some(this_indent);
    }
    Ok(sections)
}

/// Returns a value without the comment after it, which begins with a space and `#` or `;`.
fn without_comment(value: &str) -> &str {
    let begins = |(at, _): &(usize, char)| value[*at..].trim_start().starts_with(['#', ';']);
    let end = value.char_indices().filter(|(_, one)| one.is_whitespace()).find(begins);
    value[..end.map_or(value.len(), |(at, _)| at)].trim()
}

/// Returns the section of a profile; `None` if there is none.
fn choose(mut sections: BTreeMap<String, Section>, kind: Kind, profile: &str) -> Option<Section> {
    if kind == Kind::Credentials {
        return sections.remove(profile);
    }
    let with_prefix = sections.keys().find(|name| {
        let rest = name.strip_prefix("profile").filter(|rest| rest.starts_with(char::is_whitespace));
        rest.is_some_and(|rest| rest.trim().trim_matches('"') == profile)
    });
    match with_prefix.cloned() {
        Some(name) => sections.remove(&name),
        None if profile == "default" => sections.remove("default"),
        None => None,
    }
}

/// The keys of a profile, which may be rotated.
pub(crate) struct ProfileKeys {
    profile: Profile,
    world: World,
    latest: Mutex<Latest>,
}

/// The keys that were read last.
struct Latest {
    keys: Arc<AwsCredential>,
    read: Moment,
    /// How often the keys have changed.
    changes: u64,
}

impl ProfileKeys {
    /// Reads the keys of a profile. Returns `None` if it has none. Fails as [`Profile::keys`] does.
    pub(crate) fn read(profile: &Profile, world: World) -> Result<Option<ProfileKeys>, String> {
        let Some((keys, file)) = profile.keys()? else { return Ok(None) };
        tracing::info!(
            profile = profile.name,
            file,
            access_key = keys.key_id,
            "the keys of the object store are those of a profile"
        );
        let latest = Latest { keys: Arc::new(keys), read: world.moment(), changes: 0 };
        Ok(Some(ProfileKeys { profile: profile.clone(), world, latest: Mutex::new(latest) }))
    }

    /// Returns how often the keys have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.latest.lock().changes
    }

    /// Returns whether the keys have changed since [`changes`](ProfileKeys::changes) returned `changes`. Reads the files
    /// again if that is not yet known.
    pub(crate) fn have_changed_since(&self, changes: u64) -> bool {
        let mut latest = self.latest.lock();
        if latest.changes == changes {
            self.read_again(&mut latest);
        }
        latest.changes != changes
    }

    fn read_again(&self, latest: &mut Latest) {
        latest.read = self.world.moment();
        let why = match self.profile.keys() {
            Ok(Some((keys, _))) if keys == *latest.keys => return,
            Ok(Some((keys, file))) => {
                tracing::info!(
                    profile = self.profile.name,
                    file,
                    access_key = keys.key_id,
                    "the keys of the object store have changed"
                );
                latest.keys = Arc::new(keys);
                latest.changes += 1;
                return;
            }
            Ok(None) => format!("profile {:?} has no keys any more", self.profile.name),
            Err(error) => error,
        };
        tracing::warn!(
            error = why,
            "the keys of the object store cannot be read again; the previous ones are used"
        );
    }
}

impl fmt::Debug for ProfileKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileKeys").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl CredentialProvider for ProfileKeys {
    type Credential = AwsCredential;

    fn get_credential<'provider, 'keys>(
        &'provider self,
    ) -> Pin<Box<dyn Future<Output = object_store::Result<Arc<AwsCredential>>> + Send + 'keys>>
    where
        'provider: 'keys,
        Self: 'keys,
    {
        Box::pin(async move {
            let mut latest = self.latest.lock();
            if self.world.moment().since(latest.read) >= REREAD_TIME {
                self.read_again(&mut latest);
            }
            Ok(Arc::clone(&latest.keys))
        })
    }
}

/// Returns whether the store may have refused a request because of its keys. The codes of stores differ: an unknown key
/// is a status 403, or 404 in versitygw; an expired token is a status 400.
pub(crate) fn may_concern_keys(error: &object_store::Error) -> bool {
    use object_store::Error as Store;
    match error {
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => true,
        Store::NotFound { .. } => !crate::is_absent(error),
        Store::Generic { .. } => error.to_string().contains("status code: 400 "),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
