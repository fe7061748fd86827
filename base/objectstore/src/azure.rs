//! The clients of a container in Azure Blob storage, or in a store with the same interface.
//!
//! Where a setting is missing, the variables of the environment count that Azure's own tools and libraries read:
//!
//! | variable | what it says |
//! |---|---|
//! | `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT` | the account |
//! | `AZURE_STORAGE_ENDPOINT` | the URL of the blob service |
//! | `AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_ACCESS_KEY`, `AZURE_STORAGE_KEY` | the key of the account |
//! | `AZURE_STORAGE_SAS_TOKEN` | a shared access signature |
//! | `AZURE_CLIENT_ID` with `AZURE_TENANT_ID` and `AZURE_CLIENT_SECRET` | a service principal |
//! | the same with `AZURE_FEDERATED_TOKEN_FILE` | a workload identity, as of Kubernetes |
//!
//! Without any of them, the machine's managed identity is used.

use std::sync::Arc;

use env::World;
use object_store::azure::{
    AzureAccessKey, AzureCredential, AzureCredentialProvider, MicrosoftAzure, MicrosoftAzureBuilder,
    split_sas,
};
use object_store::{RetryConfig, StaticCredentialProvider};

use crate::client::Clients;
use crate::connector::Connector;
use crate::lasting_keys::LastingKeys;
use crate::{Options, with_causes};

/// The domain of the storage services of Azure's public cloud.
pub const PUBLIC_DOMAIN: &str = "core.windows.net";

/// Settings of Azure Blob storage. If a field is `None`, its value comes from the environment (such as
/// `AZURE_STORAGE_ACCOUNT_KEY`), or from the machine's managed identity.
#[derive(Clone, Debug)]
pub struct Azure {
    /// The name of the storage account.
    pub account: Option<String>,
    /// The domain of the storage services, which sovereign clouds have their own of.
    pub domain: String,
    /// With what requests are authorized.
    pub secret: Option<AzureSecret>,
}

/// What authorizes requests to an account of Azure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AzureSecret {
    /// A key of the account, in base 64.
    AccountKey(String),
    /// A shared access signature with the rights to read, write, delete and list in the container.
    Sas(String),
}

impl Azure {
    /// Creates the clients of the container. `variable` returns a variable of the environment. Fails if no account is
    /// named, or if the key is not one.
    pub(crate) fn clients(
        &self,
        options: &Options,
        connector: &Connector,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Clients, String> {
        let first =
            |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|text| !text.is_empty()));
        let account = self
            .account
            .clone()
            .or_else(|| first(&["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"]))
            .ok_or(
                "no storage account is named; expected abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER, or the name in \
                 AZURE_STORAGE_ACCOUNT_NAME",
            )?;
        let endpoint = options
            .endpoint
            .clone()
            .or_else(|| first(&["AZURE_STORAGE_ENDPOINT"]))
            .unwrap_or_else(|| format!("https://{account}.blob.{}", self.domain));
        // The paths in a deletion of many files are relative to the endpoint, and wrong if that ends with a slash.
        let endpoint = endpoint.trim_end_matches('/');
        let key = first(&["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY"]);
        let builder = |retry: RetryConfig| {
            let builder = MicrosoftAzureBuilder::from_env()
                // The library's switch for an emulator would replace the endpoint.
                .with_use_emulator(false)
                .with_account(&account)
                .with_container_name(&options.bucket)
                .with_endpoint(endpoint.to_owned())
                .with_allow_http(endpoint.starts_with("http:"))
                .with_retry(retry);
            match &key {
                Some(key) => builder.with_access_key(key),
                None => builder,
            }
        };
        let build = |builder: MicrosoftAzureBuilder| builder.build().map_err(|error| with_causes(&error));
        // Credentials may come from another service. A client of its own asks it, so that only the store's requests are
        // counted.
        let credentials = match &self.secret {
            Some(secret) => secret.provider()?,
            None => {
                let given = Arc::clone(build(builder(options.retry()))?.credentials());
                LastingKeys::new(given, World::real())
            }
        };
        let counted = |retry: RetryConfig| -> Result<Arc<MicrosoftAzure>, String> {
            let builder = builder(retry).with_http_connector(connector.clone());
            build(builder.with_credentials(Arc::clone(&credentials))).map(Arc::new)
        };
        let (store, once) = (counted(options.retry())?, counted(Options::no_retry())?);
        Ok(Clients { store, once, profile_keys: None, remote_keys: None })
    }

    /// Returns the URL of a folder in the container, as Hadoop writes it.
    pub(crate) fn url(&self, container: &str, folder: &str) -> String {
        match &self.account {
            Some(account) => format!("abfss://{container}@{account}.dfs.{}/{folder}", self.domain),
            None => format!("az://{container}/{folder}"),
        }
    }
}

impl AzureSecret {
    fn provider(&self) -> Result<AzureCredentialProvider, String> {
        let credential = match self {
            AzureSecret::AccountKey(key) => AzureAccessKey::try_new(key)
                .map(AzureCredential::AccessKey)
                .map_err(|error| format!("the key of the storage account is not in base 64: {error}"))?,
            AzureSecret::Sas(token) => split_sas(token).map(AzureCredential::SASToken).map_err(|error| {
                format!("the shared access signature is no list of name=value pairs: {error}")
            })?,
        };
        Ok(Arc::new(StaticCredentialProvider::new(credential)))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a store that answers as Azure does")]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use env::sync::Mutex;
    use storage::{FileName, Files, Kind};

    use super::*;
    use crate::{Bucket, Service};

    /// The base 64 of some bytes.
    const KEY: &str = "a2V5";

    /// Starts a store that gives this answer to every request. Returns its URL, and the heads of the requests so far.
    fn answering(status: &'static str, code: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&heads);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.expect("accepted");
                let mut request = [0; 16 << 10];
                let count = client.read(&mut request).unwrap_or(0);
                noted.lock().push(String::from_utf8_lossy(&request[..count]).into_owned());
                let body = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"e\"\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _client_may_be_gone = client.write_all(answer.as_bytes());
            }
        });
        (endpoint, heads)
    }

    fn azure(account: Option<&str>, secret: Option<AzureSecret>) -> Azure {
        Azure { account: account.map(str::to_owned), domain: PUBLIC_DOMAIN.to_owned(), secret }
    }

    fn bucket(azure: Azure, endpoint: &str, variables: &[(&str, &str)]) -> storage::Result<Bucket> {
        let options = Options {
            endpoint: Some(endpoint.to_owned()).filter(|url| !url.is_empty()),
            service: Service::Azure(azure),
            settle_time: Duration::from_millis(300),
            ..Options::new("container", "x")
        };
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| (*text).to_owned())
        };
        Bucket::with_environment(options, variable)
    }

    fn with_key(endpoint: &str) -> Bucket {
        let secret = AzureSecret::AccountKey(KEY.to_owned());
        bucket(azure(Some("acc"), Some(secret)), endpoint, &[]).expect("a client")
    }

    #[test]
    fn an_absent_container_does_not_make_files_absent() {
        let name = FileName::new("file");
        for (code, is_absent) in [("BlobNotFound", true), ("ContainerNotFound", false)] {
            let (endpoint, _heads) = answering("404 Not Found", code);
            let bucket = with_key(&endpoint);
            let loaded = bucket.load(&name, 100).expect_err("refused");
            assert_eq!(loaded.kind() == Kind::NotFound, is_absent, "{loaded}");
            let opened = bucket.open(&name).err().expect("refused");
            assert_eq!(opened.kind() == Kind::NotFound, is_absent, "{opened}");
        }
    }

    #[test]
    fn a_probe_ends_at_a_permanent_refusal() {
        for (status, code) in [
            ("404 Not Found", "ContainerNotFound"),
            ("403 Forbidden", "AuthenticationFailed"),
            ("400 Bad Request", "InvalidResourceName"),
        ] {
            let (endpoint, heads) = answering(status, code);
            let error = with_key(&endpoint).probe().expect_err("refused").to_string();
            assert!(error.contains(code), "{error}");
            let puts = heads.lock().iter().filter(|head| head.starts_with("PUT ")).count();
            assert_eq!(puts, 1, "{code} is final");
        }
    }

    #[test]
    fn a_file_is_created_under_a_condition_with_metadata_that_azure_accepts() {
        let (endpoint, heads) = answering("201 Created", "");
        let bucket = with_key(&format!("{endpoint}/acc/"));
        let mut writer = bucket.create(&FileName::new("f")).expect("new");
        writer.write(b"content").expect("written");
        writer.finish().expect("created");
        let head = heads.lock()[0].to_ascii_lowercase();
        assert!(head.starts_with("put /acc/container/x/f http/1.1\r\n"), "{head}");
        // A name in the metadata of a blob is an identifier.
        let metadata =
            head.lines().find_map(|line| line.strip_prefix("x-ms-meta-")).expect("a random number");
        let (name, _) = metadata.split_once(':').expect("a header");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        for header in ["if-none-match: *", "x-ms-blob-type: blockblob", "authorization: sharedkey acc:"] {
            assert!(head.contains(&format!("\r\n{header}")), "no {header} in {head}");
        }
        assert_eq!(bucket.place(), "abfss://container@acc.dfs.core.windows.net/x");
    }

    #[test]
    fn what_is_not_configured_comes_from_the_environment() {
        let (endpoint, heads) = answering("404 Not Found", "BlobNotFound");
        let name = FileName::new("f");
        let variables = [
            ("AZURE_STORAGE_ACCOUNT", "of_env"),
            ("AZURE_STORAGE_KEY", KEY),
            ("AZURE_STORAGE_ENDPOINT", endpoint.as_str()),
        ];
        let of_environment = bucket(azure(None, None), "", &variables).expect("a client");
        assert_eq!(of_environment.load(&name, 1).expect_err("absent").kind(), Kind::NotFound);
        assert!(heads.lock()[0].to_ascii_lowercase().contains("authorization: sharedkey of_env:"));
        assert_eq!(of_environment.place(), "az://container/x");
        // What is configured counts before the environment.
        let sas = AzureSecret::Sas("?sv=2024-01-01&sig=a%2Fb".to_owned());
        let configured = bucket(azure(Some("acc"), Some(sas)), &endpoint, &variables).expect("a client");
        assert_eq!(configured.load(&name, 1).expect_err("absent").kind(), Kind::NotFound);
        let head = heads.lock()[1].to_ascii_lowercase();
        assert!(head.contains("sig=a%2fb") && !head.contains("authorization"), "{head}");
    }

    #[test]
    fn a_wrong_setting_is_named_and_a_secret_is_not_shown() {
        let refused = |azure: Azure| bucket(azure, "", &[]).err().expect("refused").to_string();
        let error = refused(azure(None, None));
        assert!(error.contains("no storage account is named"), "{error}");
        let error = refused(azure(Some("acc"), Some(AzureSecret::AccountKey("s3cret!".to_owned()))));
        assert!(error.contains("not in base 64") && !error.contains("s3cret"), "{error}");
        let error = refused(azure(Some("acc"), Some(AzureSecret::Sas("s3cret".to_owned()))));
        assert!(error.contains("no list of name=value pairs") && !error.contains("s3cret"), "{error}");
        let (endpoint, _heads) = answering("403 Forbidden", "AuthorizationFailure");
        let sas = AzureSecret::Sas("sig=s3cret".to_owned());
        let bucket = bucket(azure(Some("acc"), Some(sas)), &endpoint, &[]).expect("a client");
        let error = bucket.load(&FileName::new("f"), 1).expect_err("refused").to_string();
        assert!(error.contains("AuthorizationFailure") && !error.contains("s3cret"), "{error}");
    }
}
