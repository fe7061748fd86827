//! What the folder of a region has, by the names of its files.

/// The kinds of files in the folder of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionContent {
    /// Whether the folder has a `.regioninfo`. Without it the folder is not counted as a region's: it may have store files
    /// that snapshots or readers still need.
    pub has_info: bool,
    has_links: bool,
    has_lists: bool,
    has_others: bool,
}

impl RegionContent {
    /// Adds a file, by the components of its path below the region's folder.
    pub fn add(&mut self, path: &[&str]) {
        match path {
            [crate::REGION_INFO] => self.has_info = true,
            [".bulkload"] => {}
            ["recovered.edits", file] if file.ends_with(".seqid") => {}
            [_, ".filelist", ..] => self.has_lists = true,
            // Only the name of a link to a file of another table or region has this character.
            [_, file] if file.contains('=') => self.has_links = true,
            _ => self.has_others = true,
        }
    }

    /// Whether the region may have rows: there is a store file or an unknown file, or a file list and a link. A list alone
    /// names nothing that is there, and a link counts only if a list names it.
    ///
    /// An object store may carry out a request again, long after it has replied. If the region was deleted meanwhile, its
    /// `.regioninfo`, a link or a list is there again, without rows.
    pub fn may_have_rows(&self) -> bool {
        self.has_others || (self.has_links && self.has_lists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(paths: &[&str]) -> RegionContent {
        let mut content = RegionContent::default();
        paths.iter().for_each(|path| content.add(&path.split('/').collect::<Vec<_>>()));
        content
    }

    #[test]
    fn a_folder_may_have_rows_if_it_has_store_files_or_links_that_count() {
        let (info, link) =
            (".regioninfo", "f/t=44d580a6a0af1288b8e75dde9a6c0ca0-fa9c9d3b587c22c5c83ca6e8090f6614");
        let (list, file) = ("f/.filelist/f1.1795886660936", "f/fa9c9d3b587c22c5c83ca6e8090f6614");
        for remains in
            [&[info][..], &[info, link], &[info, list], &[info, ".bulkload", "recovered.edits/2.seqid"]]
        {
            assert!(content(remains).has_info && !content(remains).may_have_rows(), "{remains:?}");
        }
        for rows in
            [&[info, file][..], &[info, link, list], &[info, "recovered.edits/0000000000000000007"], &[file]]
        {
            assert!(content(rows).may_have_rows(), "{rows:?}");
        }
        assert!(!content(&[file]).has_info);
    }
}
