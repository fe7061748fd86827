//! The services in which a bucket may be, and how their interfaces differ.
//!
//! | | S3 | Azure Blob storage |
//! |---|---|---|
//! | a bucket's name there | bucket | container |
//! | the last bytes of an object of unknown size | one GET | a GET of the first bytes, which says the size, then one of the last |
//! | file of several parts | multipart upload: begin, parts, complete | blocks, then the list of the blocks |
//! | deletion of many files | 1,000 in a request | 256 in a request |
//! | names in metadata | letters, digits, hyphens | identifiers, so no hyphens |

use std::borrow::Cow;

use object_store::{Attribute, GetRange};

use crate::TAIL_BYTES;
use crate::azure::Azure;
use crate::s3::S3;

/// The service that has a bucket, with the settings that only this service has.
#[derive(Clone, Debug)]
pub enum Service {
    /// Amazon S3, or a store with the same interface.
    S3(S3),
    /// Azure Blob storage, or a store with the same interface. The bucket is a container.
    Azure(Azure),
}

impl Service {
    /// Returns the metadata of a file's object that has the random number of its writer, as 16 hexadecimal digits.
    pub(crate) const fn nonce(&self) -> Attribute {
        Attribute::Metadata(Cow::Borrowed(match self {
            Service::S3(_) => "bellows-nonce",
            Service::Azure(_) => "bellows_nonce",
        }))
    }

    /// Returns the range of the request that opens a file: its last bytes, or its first ones if the service knows no
    /// range from the end. A GET of the first bytes is used and not a HEAD, because the reply to a failed HEAD does not
    /// say whether the object or the whole container is absent.
    pub(crate) const fn opening_range(&self) -> GetRange {
        match self {
            Service::S3(_) => GetRange::Suffix(TAIL_BYTES),
            Service::Azure(_) => GetRange::Bounded(0..TAIL_BYTES),
        }
    }

    /// Returns the URL of the folder `prefix` of a bucket.
    pub(crate) fn url(&self, bucket: &str, prefix: &str) -> String {
        let prefix = prefix.trim_matches('/');
        match self {
            Service::S3(_) => format!("s3://{bucket}/{prefix}"),
            Service::Azure(azure) => azure.url(bucket, prefix),
        }
    }
}
