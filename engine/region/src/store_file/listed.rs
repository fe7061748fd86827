//! A store file as the store's file list names it.

use proto::pb;

use super::Reference;

/// An entry of a store's file list: one file of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// The content of the reference file of this name; `None` for other files, and in lists written by HBase.
    pub(crate) reference: Option<Reference>,
}

impl TryFrom<pb::StoreFileEntry> for Listed {
    type Error = String;

    fn try_from(entry: pb::StoreFileEntry) -> std::result::Result<Listed, String> {
        let reference = entry.reference.as_ref().map(Reference::try_from).transpose();
        let reference = reference.map_err(|error| format!("{:?}: {error}", entry.name))?;
        Ok(Listed { name: entry.name, size: entry.size, reference })
    }
}
