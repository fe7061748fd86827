//! The root in a container of Azure Blob storage: its URL, and the settings of its account.
//!
//! | URL | used by |
//! |---|---|
//! | `abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER`, `abfss:` | Hadoop and HBase; both mean HTTPS here |
//! | `wasb://CONTAINER@ACCOUNT.blob.core.windows.net/FOLDER`, `wasbs:` | older versions of Hadoop, for the same containers |
//! | `az://CONTAINER/FOLDER`, `azure:` | other tools; `AZURE_STORAGE_ACCOUNT_NAME` has the account |
//!
//! The keys are those of Hadoop's client, with the account's name at their end: `fs.azure.account.key.ACCOUNT` and
//! `fs.azure.sas.fixed.token.ACCOUNT`, where ACCOUNT may also be the host of the URL, and may be absent.

use std::fmt;

use conf::{Conf, keys};
use objectstore::{Azure, AzureSecret, PUBLIC_DOMAIN};

use crate::failure::Failure;

const ACCOUNT_KEY: &str = "fs.azure.account.key";
const SAS_TOKEN: &str = "fs.azure.sas.fixed.token";

/// An account of Azure Blob storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    name: String,
    /// The domain of the storage services, such as `core.windows.net`.
    domain: String,
}

/// A container, and the account that the URL names; `None` if it names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) account: Option<Account>,
}

impl Account {
    /// Returns the name of the host of this service of the account.
    fn host(&self, service: &str) -> String {
        format!("{}.{service}.{}", self.name, self.domain)
    }

    /// Returns the account whose services have this host.
    fn of_host(host: &str) -> Option<Account> {
        let (name, rest) = host.split_once('.')?;
        let domain = ["dfs.", "blob."].iter().find_map(|service| rest.strip_prefix(service))?;
        let is_good = !name.is_empty() && !domain.is_empty() && !domain.contains(':');
        is_good.then(|| Account { name: name.to_lowercase(), domain: domain.to_lowercase() })
    }
}

impl Container {
    /// Returns the container that a URL of this scheme and authority names; `None` if the scheme is not one of Azure.
    /// The error says what is expected.
    pub(crate) fn parse(scheme: &str, authority: &str) -> Option<Result<Container, &'static str>> {
        let (container, host) = match authority.split_once('@') {
            Some((container, host)) => (container, Some(host)),
            None => (authority, None),
        };
        let account = match scheme.to_ascii_lowercase().as_str() {
            "abfs" | "abfss" | "wasb" | "wasbs" => host.and_then(Account::of_host).map(Some),
            "az" | "azure" => host.is_none().then_some(None),
            _ => return None,
        };
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-$".contains(&byte);
        let is_good = !container.is_empty() && container.bytes().all(is_name);
        Some(account.filter(|_| is_good).map(|account| Container { name: container.to_owned(), account }).ok_or(
            "expected abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER, or az://CONTAINER/FOLDER with the account in \
             AZURE_STORAGE_ACCOUNT_NAME; the account's key is fs.azure.account.key.ACCOUNT",
        ))
    }
}

/// Writes the URL of the container without a slash at its end.
impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.account {
            Some(account) => write!(f, "abfss://{}@{}", self.name, account.host("dfs")),
            None => write!(f, "az://{}", self.name),
        }
    }
}

/// Whether a setting that is not one of this program's keys has a meaning for a root in Azure.
pub(crate) fn understands(key: &str) -> bool {
    [ACCOUNT_KEY, SAS_TOKEN]
        .iter()
        .any(|known| key.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// Returns the settings of the account. Fails if it has a key and a shared access signature.
pub(crate) fn settings(conf: &Conf, account: Option<&Account>) -> Result<Azure, Failure> {
    let key = of_account(conf, ACCOUNT_KEY, account)?;
    let sas = of_account(conf, SAS_TOKEN, account)?;
    let secret = match (key, sas) {
        (Some(_), Some(_)) => {
            return Err(Failure::new(format!(
                "{ACCOUNT_KEY} and {SAS_TOKEN} are both set for this account, and a request has one of them; remove one"
            )));
        }
        (Some(key), None) => Some(AzureSecret::AccountKey(key)),
        (None, Some(sas)) => Some(AzureSecret::Sas(sas)),
        (None, None) => None,
    };
    Ok(Azure {
        account: account.map(|account| account.name.clone()),
        domain: account.map_or_else(|| PUBLIC_DOMAIN.to_owned(), |account| account.domain.clone()),
        secret,
    })
}

/// Returns the value of Hadoop's key `key` for the account. The key with a host of the account counts first, then that
/// with its name, then that without an account.
fn of_account(conf: &Conf, key: &str, account: Option<&Account>) -> Result<Option<String>, Failure> {
    let mut names = Vec::new();
    if let Some(account) = account {
        names.extend([account.host("dfs"), account.host("blob"), account.name.clone()]);
    }
    let names = names.iter().map(|account| format!("{key}.{account}")).chain([key.to_owned()]);
    for name in names {
        if let Some(text) = conf.text(&name)?.filter(|text| !text.is_empty()) {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Returns the URL of the blob service, for another than Azure's own.
pub(crate) fn endpoint(conf: &Conf) -> Result<Option<String>, Failure> {
    Ok(Some(conf.value(&keys::cluster::AZURE_ENDPOINT)?).filter(|url: &String| !url.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(scheme: &str, authority: &str) -> Option<Result<String, &'static str>> {
        Container::parse(scheme, authority).map(|parsed| parsed.map(|container| container.to_string()))
    }

    #[test]
    fn the_urls_of_hadoop_and_of_other_tools_name_a_container() {
        for (scheme, authority, url) in [
            ("abfs", "c@acc.dfs.core.windows.net", "abfss://c@acc.dfs.core.windows.net"),
            ("abfss", "c-1@acc.dfs.core.chinacloudapi.cn", "abfss://c-1@acc.dfs.core.chinacloudapi.cn"),
            ("ABFSS", "c@Acc.blob.core.windows.net", "abfss://c@acc.dfs.core.windows.net"),
            ("wasbs", "c@acc.blob.core.windows.net", "abfss://c@acc.dfs.core.windows.net"),
            ("az", "c", "az://c"),
            ("azure", "c", "az://c"),
        ] {
            assert_eq!(container(scheme, authority), Some(Ok(url.to_owned())), "{scheme}://{authority}");
        }
        for (scheme, authority) in [
            ("abfs", "c"),
            ("abfs", "@acc.dfs.core.windows.net"),
            ("abfs", "c@acc"),
            ("abfs", "c@127.0.0.1:10000"),
            ("abfs", "UPPER@acc.dfs.core.windows.net"),
            ("az", "c@acc.dfs.core.windows.net"),
            ("az", ""),
        ] {
            let refused = container(scheme, authority).expect("a scheme of Azure").expect_err(authority);
            assert!(refused.contains("expected abfss://CONTAINER@ACCOUNT"), "{refused}");
        }
        assert_eq!(container("s3", "b"), None);
    }

    #[test]
    fn the_secret_of_an_account_is_found_by_its_host_its_name_or_alone() {
        let account = Account::of_host("acc.dfs.core.windows.net").expect("a host");
        let secret = |settings: &[&str]| {
            let mut conf = Conf::new();
            for setting in settings {
                conf = conf.with_definition(setting).expect("a setting");
            }
            super::settings(&conf, Some(&account)).map(|azure| azure.secret)
        };
        let key = |text: &str| Some(AzureSecret::AccountKey(text.to_owned()));
        let general = "fs.azure.account.key=general";
        let of_other = "fs.azure.account.key.other.dfs.core.windows.net=other";
        for (settings, expected) in [
            (&[of_other][..], None),
            (&[of_other, general], key("general")),
            (&[general, "fs.azure.account.key.acc=by name"], key("by name")),
            (
                &[
                    "fs.azure.account.key.acc=by name",
                    "fs.azure.account.key.acc.blob.core.windows.net=by host",
                ],
                key("by host"),
            ),
            (&["fs.azure.sas.fixed.token.acc=sv=1"], Some(AzureSecret::Sas("sv=1".to_owned()))),
        ] {
            assert_eq!(secret(settings).expect("good"), expected, "{settings:?}");
        }
        let refused = secret(&[general, "fs.azure.sas.fixed.token=sv=1"]).expect_err("both").to_string();
        assert!(refused.contains("remove one"), "{refused}");
        for key in ["fs.azure.account.key", "fs.azure.account.key.x", "fs.azure.sas.fixed.token.x.y"] {
            assert!(understands(key), "{key}");
        }
        for key in ["fs.azure.account.keyprovider.x", "fs.azure.createRemoteFileSystemDuringInitialization"] {
            assert!(!understands(key), "{key}");
        }
    }
}
