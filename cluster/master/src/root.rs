//! The two files of the root directory: the version of its layout, and the id of the cluster.

use bytes::Bytes;
use env::World;
use proto::{pb, pbuf};
use storage::{Files, Kind, swap_confirmed};

use crate::Error;

/// The number by which HBase 2.x identifies its layout of the root directory.
const LAYOUT_VERSION: &str = "8";
/// Maximum size of either file, in bytes.
const SIZE_MAX: usize = 4096;

/// Reads the cluster's id, or creates a cluster in an empty root directory.
///
/// The version is written last, so that a root directory with a version is complete.
pub fn found(files: &dyn Files, world: &World) -> Result<String, Error> {
    let id = match read::<pb::ClusterId>(files, &layout::cluster_id(), "hbase.id")? {
        Some(id) => id.cluster_id,
        None => {
            let id = uuid(world);
            let content = pbuf::encode(&pb::ClusterId { cluster_id: id.clone() });
            swap_confirmed(files, &layout::cluster_id(), None, &content)?;
            id
        }
    };
    match read::<pb::HBaseVersionFileContent>(files, &layout::version(), "hbase.version")? {
        Some(content) if content.version == LAYOUT_VERSION => {}
        Some(content) => return Err(Error::Version { name: layout::version(), found: content.version }),
        None => {
            let content = pbuf::encode(&pb::HBaseVersionFileContent { version: LAYOUT_VERSION.into() });
            swap_confirmed(files, &layout::version(), None, &content)?;
        }
    }
    Ok(id)
}

fn read<M: prost::Message + Default>(
    files: &dyn Files,
    name: &storage::FileName,
    what: &'static str,
) -> Result<Option<M>, Error> {
    match files.read(name, SIZE_MAX) {
        Ok(content) => pbuf::decode(what, &Bytes::from(content))
            .map(Some)
            .map_err(|cause| Error::Damaged { name: name.clone(), cause: Box::new(cause) }),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns a random UUID (version 4).
fn uuid(world: &World) -> String {
    let high = world.random() & !0xf000 | 0x4000;
    let low = world.random() & !(0b11 << 62) | 0b10 << 62;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low << 16 >> 16
    )
}

#[cfg(test)]
mod tests {
    use env::WallTime;

    use super::*;

    #[test]
    fn a_cluster_that_was_founded_despite_an_error_keeps_its_id() {
        let told = env::sync::Mutex::new(None);
        let world = |seed| World::simulated(seed, WallTime(1_000_000));
        let overcome = storage::at_every_false_alarm(
            |_empty| *told.lock() = None,
            |place| {
                *told.lock() = found(place, &world(1)).ok();
                told.lock().is_some()
            },
            |next, founded| {
                let id = found(next, &world(2)).expect("a start after it founds or finds the cluster");
                assert_eq!(found(next, &world(3)).expect("complete"), id);
                assert!(!founded || told.lock().as_ref() == Some(&id), "clients know the id {told:?}");
            },
        );
        assert_eq!(overcome, 2, "the id and the version are read again");
    }
}
