//! The clients of a bucket in Amazon S3, or in a store with the same interface.

use std::sync::Arc;

use env::World;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use object_store::{RetryConfig, StaticCredentialProvider};

use crate::Options;
use crate::client::Clients;
use crate::connector::Connector;
use crate::keys::RemoteKeys;
use crate::lasting_keys::LastingKeys;
use crate::profile::{Profile, ProfileKeys};

/// Settings of S3. If a field is `None`, its value comes from the environment (such as `AWS_ACCESS_KEY_ID`), from a
/// profile of `~/.aws`, from a web identity, or from the metadata of the container or the instance.
#[derive(Clone, Debug, Default)]
pub struct S3 {
    /// The AWS region of the bucket.
    pub region: Option<String>,
    /// The access key and the secret key.
    pub keys: Option<(String, String)>,
    /// The session token that belongs to `keys`. Without `keys` it has no effect.
    pub session_token: Option<String>,
    /// Whether the bucket's name is in the URL's path and not in its host name, as MinIO, versitygw and Ceph need it.
    pub path_style: bool,
}

impl S3 {
    /// Creates the clients of the bucket. `variable` returns a variable of the environment, as far as it decides whether
    /// a profile is used. Fails if the keys are those of a profile that cannot be used.
    pub(crate) fn clients(
        &self,
        options: &Options,
        connector: &Connector,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Clients, String> {
        let is_set = |names: [&str; 2]| names.iter().any(|name| variable(name).is_some());
        let profile = Profile::of(&variable);
        let profile_keys = match self.keys {
            None if !is_set(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]) => {
                ProfileKeys::read(&profile, World::real())?.map(Arc::new)
            }
            _ => None,
        };
        let region = match &self.region {
            None if !is_set(["AWS_REGION", "AWS_DEFAULT_REGION"]) => profile.region(),
            region => region.clone(),
        };
        let builder = |retry: RetryConfig| {
            let mut builder = self.with_address(AmazonS3Builder::from_env(), options).with_retry(retry);
            if let Some(region) = &region {
                builder = builder.with_region(region);
            }
            if let Some(keys) = &profile_keys {
                builder = builder.with_credentials(Arc::clone(keys) as _);
            }
            if let Some(url) = variable("AWS_METADATA_ENDPOINT") {
                builder = builder.with_metadata_endpoint(url);
            }
            self.with_keys(builder)
        };
        let build = |builder: AmazonS3Builder| builder.build().map_err(|error| error.to_string());
        // Credentials may come from another service. A client of its own asks it, so that only the store's requests are
        // counted.
        let credentials = match self.keys {
            Some(_) => None,
            None => {
                let given = Arc::clone(build(builder(options.retry()))?.credentials());
                Some(LastingKeys::new(given, World::real()) as AwsCredentialProvider)
            }
        };
        let counted = |retry: RetryConfig| -> Result<Arc<AmazonS3>, String> {
            let builder = builder(retry).with_http_connector(connector.clone());
            let built = build(match &credentials {
                Some(credentials) => builder.with_credentials(Arc::clone(credentials)),
                None => builder,
            });
            built.map(Arc::new)
        };
        let (store, once) = (counted(options.retry())?, counted(Options::no_retry())?);
        let is_local = profile_keys.is_some() || is_set(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]);
        let skips = builder(Options::no_retry()).get_config_value(&AmazonS3ConfigKey::SkipSignature);
        let needs_none = skips.is_some_and(|skips| skips.eq_ignore_ascii_case("true"));
        let remote_keys = credentials
            .filter(|_| !is_local && !needs_none)
            .map(|provider| RemoteKeys::new(provider, options.settle_time, &variable));
        Ok(Clients { store, once, profile_keys, remote_keys })
    }

    /// Lets `builder`, which has the settings of the environment, send its requests to the bucket and to no other store. A
    /// variable for S3 alone, such as `AWS_ENDPOINT_URL_S3`, would count before the endpoint of the options.
    fn with_address(&self, builder: AmazonS3Builder, options: &Options) -> AmazonS3Builder {
        let builder =
            builder.with_bucket_name(&options.bucket).with_virtual_hosted_style_request(!self.path_style);
        let Some(endpoint) = &options.endpoint else { return builder };
        // The library puts the bucket only before the host of an endpoint that it makes itself.
        let endpoint = match self.path_style {
            true => endpoint.clone(),
            false => before_host(&options.bucket, endpoint),
        };
        builder
            .with_allow_http(endpoint.starts_with("http:"))
            .with_config(AmazonS3ConfigKey::S3Endpoint, &endpoint)
            .with_endpoint(endpoint)
    }

    /// Lets `builder` use the keys, if there are any, and no session token but theirs. A token of the environment belongs
    /// to other keys, and a store refuses requests that combine them. Requests are signed, whatever the environment says.
    fn with_keys(&self, builder: AmazonS3Builder) -> AmazonS3Builder {
        let Some((access, secret)) = &self.keys else { return builder };
        builder.with_skip_signature(false).with_credentials(Arc::new(StaticCredentialProvider::new(
            AwsCredential {
                key_id: access.clone(),
                secret_key: secret.clone(),
                token: self.session_token.clone(),
            },
        )))
    }
}

/// Returns the URL of a store with the bucket's name before its host, unless it is there already.
fn before_host(bucket: &str, endpoint: &str) -> String {
    let (scheme, host) = endpoint.split_once("://").unwrap_or(("https", endpoint));
    match host.strip_prefix(bucket).is_some_and(|rest| rest.starts_with('.')) {
        true => endpoint.to_owned(),
        false => format!("{scheme}://{bucket}.{host}"),
    }
}

#[cfg(test)]
mod tests {
    use env::Runtime;

    use super::*;

    #[test]
    fn keys_are_used_with_their_own_session_token_and_no_other() {
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let runtime = Runtime::start("test", 1).expect("a thread");
        for token in [None, Some("own".to_owned())] {
            let keys = Some(("a".to_owned(), "b".to_owned()));
            let s3 = S3 { keys, session_token: token.clone(), ..S3::default() };
            let of_environment =
                AmazonS3Builder::new().with_bucket_name("bucket").with_token("of the environment");
            let store = s3.with_keys(of_environment).build().expect("complete");
            let used = runtime.handle().block_on(store.credentials().get_credential()).expect("static");
            assert_eq!((&used.key_id[..], &used.secret_key[..], &used.token), ("a", "b", &token));
        }
    }

    #[test]
    fn the_bucket_is_before_the_host_or_in_the_path() {
        for (endpoint, with_bucket) in [
            ("https://s3.eu-central-1.amazonaws.com", "https://bucket.s3.eu-central-1.amazonaws.com"),
            ("http://minio:9000", "http://bucket.minio:9000"),
            ("https://bucket.store.example/x", "https://bucket.store.example/x"),
            ("https://bucketing.example", "https://bucket.bucketing.example"),
        ] {
            let used = |path_style| {
                let options = Options { endpoint: Some(endpoint.to_owned()), ..Options::new("bucket", "") };
                let s3 = S3 { path_style, ..S3::default() };
                let builder = s3.with_address(AmazonS3Builder::new(), &options);
                builder.get_config_value(&AmazonS3ConfigKey::Endpoint).expect("an endpoint")
            };
            assert_eq!((used(true), used(false)), (endpoint.to_owned(), with_bucket.to_owned()));
        }
        let options = Options::new("bucket", "");
        let amazon = S3::default().with_address(AmazonS3Builder::new(), &options);
        assert_eq!(amazon.get_config_value(&AmazonS3ConfigKey::Endpoint), None, "the library makes it");
    }

    #[test]
    fn a_variable_counts_neither_before_the_endpoint_nor_before_the_keys() {
        let of_environment = AmazonS3Builder::new()
            .with_config(AmazonS3ConfigKey::S3Endpoint, "http://other:1")
            .with_skip_signature(true);
        let options =
            Options { endpoint: Some("http://127.0.0.1:9000".to_owned()), ..Options::new("bucket", "") };
        let keys = Some(("a".to_owned(), "b".to_owned()));
        let s3 = S3 { keys, path_style: true, ..S3::default() };
        let builder = s3.with_keys(s3.with_address(of_environment, &options));
        let used = |key| builder.get_config_value(&key);
        assert_eq!(used(AmazonS3ConfigKey::S3Endpoint).as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(used(AmazonS3ConfigKey::SkipSignature).as_deref(), Some("false"));
    }
}
