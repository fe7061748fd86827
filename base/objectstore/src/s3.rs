//! The clients of a bucket in Amazon S3, or in a store with the same interface.

use std::sync::Arc;

use env::World;
use object_store::aws::{AmazonS3, AmazonS3Builder, AwsCredential};
use object_store::{RetryConfig, StaticCredentialProvider};

use crate::Options;
use crate::client::Clients;
use crate::connector::Connector;
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
            let mut builder = AmazonS3Builder::from_env()
                .with_bucket_name(&options.bucket)
                .with_virtual_hosted_style_request(!self.path_style)
                .with_retry(retry);
            if let Some(endpoint) = &options.endpoint {
                builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http:"));
            }
            if let Some(region) = &region {
                builder = builder.with_region(region);
            }
            if let Some(keys) = &profile_keys {
                builder = builder.with_credentials(Arc::clone(keys) as _);
            }
            self.with_keys(builder)
        };
        let build = |builder: AmazonS3Builder| builder.build().map_err(|error| error.to_string());
        // Credentials may come from another service. A client of its own asks it, so that only the store's requests are
        // counted.
        let credentials = match self.keys {
            Some(_) => None,
            None => Some(Arc::clone(build(builder(options.retry()))?.credentials())),
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
        Ok(Clients { store, once, profile_keys })
    }

    /// Lets `builder` use the keys, if there are any, and no session token but theirs. A token of the environment belongs
    /// to other keys, and a store refuses requests that combine them.
    fn with_keys(&self, builder: AmazonS3Builder) -> AmazonS3Builder {
        let Some((access, secret)) = &self.keys else { return builder };
        builder.with_credentials(Arc::new(StaticCredentialProvider::new(AwsCredential {
            key_id: access.clone(),
            secret_key: secret.clone(),
            token: self.session_token.clone(),
        })))
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
}
