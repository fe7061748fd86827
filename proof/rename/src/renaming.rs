//! Files in a bucket whose store files are committed by a rename.

use std::sync::Arc;

use env::Runtime;
use object_store::ObjectStoreExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use objectstore::{Bucket, Options, S3, Service};
use storage::{
    Entry, Error, FileName, FileWriter, Files, Kind, Memory, Object, Outcome, Overlay, Result, Settled,
    Version,
};

/// A bucket and its keys.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) endpoint: String,
    pub(crate) bucket: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
}

impl Place {
    /// Opens the files below `prefix`, as a server does.
    pub(crate) fn files(&self, prefix: &str) -> Result<Bucket> {
        let keys = Some((self.access_key.clone(), self.secret_key.clone()));
        Bucket::new(Options {
            endpoint: Some(self.endpoint.clone()),
            service: Service::S3(S3 { keys, path_style: true, ..S3::default() }),
            ..Options::new(self.bucket.clone(), prefix)
        })
    }

    /// Opens the files below `prefix`, with commits by rename.
    pub(crate) fn renamed_files(&self, prefix: &str) -> Result<Renaming> {
        let store = AmazonS3Builder::new()
            .with_endpoint(&self.endpoint)
            .with_allow_http(true)
            .with_bucket_name(&self.bucket)
            .with_region("us-east-1")
            .with_access_key_id(&self.access_key)
            .with_secret_access_key(&self.secret_key)
            .build()
            .map_err(|error| failed(&FileName::root(), "open", error))?;
        let runtime = Runtime::start("rename", 1).map_err(|error| {
            Error::new(Kind::Failed, Outcome::DidNotHappen, &FileName::root(), "open")
                .because(error.to_string())
        })?;
        let store = Arc::new(Renames { store, runtime, prefix: prefix.to_owned() });
        Ok(Renaming { below: self.files(prefix)?, renames: store, lists: Memory::new() })
    }
}

fn failed(name: &FileName, act: &'static str, error: object_store::Error) -> Error {
    Error::new(Kind::Failed, Outcome::MayHaveHappened, name, act).because(error.to_string())
}

/// Files whose commit is a rename, as that of HBase's tracker DEFAULT. A rename is a COPY and a DELETE; HBase's client of S3
/// sends six to nine further requests with them, which are left out. The lists of stores are in memory: a reader would list
/// the folder instead.
pub(crate) struct Renaming {
    below: Bucket,
    renames: Arc<Renames>,
    lists: Memory,
}

struct Renames {
    store: AmazonS3,
    runtime: Runtime,
    prefix: String,
}

impl Renaming {
    fn place_of(&self, name: &FileName) -> &dyn Files {
        let is_list = name.as_str().split('/').any(|folder| folder == ".filelist");
        if is_list { &self.lists } else { &self.below }
    }
}

impl Overlay for Renaming {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        Ok(Box::new(RenamedWriter { below: self.below.create(name)?, renames: Arc::clone(&self.renames) }))
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        self.place_of(folder).list(folder)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        self.place_of(name).delete(name)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        self.place_of(name).load(name, bytes_max)
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        self.place_of(name).swap(name, expected, new)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        self.place_of(name).settle(name, expected, new)
    }
}

struct RenamedWriter {
    below: Box<dyn FileWriter>,
    renames: Arc<Renames>,
}

impl FileWriter for RenamedWriter {
    fn name(&self) -> &FileName {
        self.below.name()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.below.write(bytes)
    }

    fn size(&self) -> u64 {
        self.below.size()
    }

    /// Writes the file under its final name, and then copies it to a temporary name and deletes the copy. The requests
    /// are those of a file that is written under a temporary name and renamed, in the same order and with the same bytes. Like
    /// this, the bucket knows the file that it has written, and opens it without a request in both modes.
    fn finish(self: Box<Self>) -> Result<u64> {
        let name = self.below.name().clone();
        let size = self.below.finish()?;
        let Renames { store, runtime, prefix } = &*self.renames;
        let from = Path::from(format!("{prefix}/{name}"));
        let to = Path::from(format!("{prefix}/.tmp/{name}"));
        let renamed = runtime.handle().block_on(async {
            store.copy(&from, &to).await?;
            store.delete(&to).await
        });
        renamed.map_err(|error| failed(&name, "rename", error))?;
        Ok(size)
    }

    fn abandon(self: Box<Self>) {
        self.below.abandon();
    }
}
