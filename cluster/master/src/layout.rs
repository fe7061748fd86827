//! Where things lie under the root directory. The folders are HBase's; the master's own small objects lie in `bellows/`.
//!
//! ```text
//! hbase.version                                    PBUF HBaseVersionFileContent
//! hbase.id                                         PBUF ClusterId
//! data/<namespace>/<table>/.tabledesc/.tableinfo.<10 digits>.<length>
//! data/<namespace>/<table>/<region>/.regioninfo    PBUF delimited RegionInfo
//! data/<namespace>/<table>/<region>/<family>/…     the region's own
//! bellows/switches                                 see `switches`
//! bellows/unfinished                               see `intents`
//! ```

use proto::{EncodedName, TableName};
use storage::FileName;

/// The folder of a namespace.
pub fn namespace(name: &str) -> FileName {
    FileName::new("data").join(name)
}

/// The folder of a table.
pub fn table(name: &TableName) -> FileName {
    namespace(name.namespace()).join(name.qualifier())
}

/// The folder of a table's descriptors.
pub fn descriptors(name: &TableName) -> FileName {
    table(name).join(".tabledesc")
}

/// The folder of a region.
pub fn region(name: &TableName, region: &EncodedName) -> FileName {
    table(name).join(region.as_str())
}

/// The file that says which region a folder is.
pub fn region_info(name: &TableName, encoded: &EncodedName) -> FileName {
    region(name, encoded).join(".regioninfo")
}

/// The object of the master's switches.
pub fn switches() -> FileName {
    FileName::new("bellows/switches")
}

/// The object of unfinished changes.
pub fn unfinished() -> FileName {
    FileName::new("bellows/unfinished")
}

/// The file of HBase's layout version.
pub fn version() -> FileName {
    FileName::new("hbase.version")
}

/// The file of the cluster's id.
pub fn cluster_id() -> FileName {
    FileName::new("hbase.id")
}
