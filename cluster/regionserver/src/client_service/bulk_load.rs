//! Bulk load: PrepareBulkLoad, BulkLoadHFile, CleanupBulkLoad.
//!
//! 1. A loading tool asks for a token, which is the path of a staging folder. The server writes nothing there, because
//!    files are loaded directly into the stores' folders. The token identifies the load in repeated calls.
//! 2. The tool names files for a region. If the answer is `false`, some files have rows outside of the region, because
//!    the region was split meanwhile. The tool then splits these files and tries again.
//! 3. The tool gives the token back.
//!
//! By default, the tool hands its files over, and they are deleted after the load, because HBase moves them. As in HBase,
//! files of other storage than the server's own stay.

use std::sync::Arc;

use bytes::Bytes;
use proto::{TableName, pb};
use region::{BulkFile, BulkLoad, BulkLoadOutcome, Region};
use rpc::{Answer, Call, Exception, Reply};
use storage::FileName;

use super::blocking_on_region;
use crate::bulk_source::{PathRefusal, Source, SourcePaths};
use crate::counters::count;
use crate::watch::later;
use crate::{RegionServer, exceptions};

/// Answers PrepareBulkLoad with a token that no other load has.
pub(super) fn prepare(server: &Arc<RegionServer>, call: &Call) -> Answer {
    count(&server.counters().requests);
    let request: pb::PrepareBulkLoadRequest = match call.decode() {
        Ok(request) => request,
        Err(refused) => return refused.into(),
    };
    let table = match TableName::try_from(&request.table_name) {
        Ok(table) => table.to_string().replace([':', '/'], "_"),
        Err(error) => return Exception::do_not_retry(error.to_string()).into(),
    };
    let user = call.connection.user.effective.as_deref().unwrap_or("unknown").replace(['/', ':'], "_");
    let world = &server.foundation().world;
    let name = format!("{user}__{table}__{:016x}{:016x}", world.random(), world.random());
    let bulk_token = server.source_paths().url(&layout::staging().join(&name));
    Ok(Reply::of(&pb::PrepareBulkLoadResponse { bulk_token })).into()
}

/// Answers CleanupBulkLoad: deletes the files in the load's staging folder.
pub(super) fn cleanup(server: &Arc<RegionServer>, call: &Call) -> Answer {
    count(&server.counters().requests);
    let request: pb::CleanupBulkLoadRequest = match call.decode() {
        Ok(request) => request,
        Err(refused) => return refused.into(),
    };
    let running = server.clone();
    let cleaned = move || {
        let files = &running.foundation().files;
        let folder = staging_folder(running.source_paths(), &request.bulk_token)
            .map_err(|refused| exceptions::of_bulk_path(&refused))?;
        let failed = |error: storage::Error| Exception::io(error.to_string());
        for entry in files.list(&folder).map_err(failed)? {
            files.delete(&entry.name).map_err(failed)?;
        }
        Ok(Reply::of(&pb::CleanupBulkLoadResponse {}))
    };
    later(server, call, env::blocking(cleaned))
}

/// Returns the staging folder that a token names.
fn staging_folder(paths: SourcePaths<'_>, token: &str) -> Result<FileName, PathRefusal> {
    let staging = layout::staging();
    match paths.folder_within(token)? {
        Some(folder) if folder.below(&staging).is_some_and(|rest| !rest.is_empty()) => Ok(folder),
        _ => Err(PathRefusal::NoToken { token: token.to_owned(), staging: paths.url(&staging) }),
    }
}

/// Returns the files that a request names. Refuses files that the load would delete although the server needs them.
fn sources(paths: SourcePaths<'_>, request: &pb::BulkLoadHFileRequest) -> Result<Vec<Source>, PathRefusal> {
    let named = |pair: &pb::bulk_load_h_file_request::FamilyPath| {
        let source = paths.find(&pair.path)?;
        if !request.copy_file() {
            source.check_may_go()?;
        }
        Ok(source)
    };
    request.family_path.iter().map(named).collect()
}

/// Answers BulkLoadHFile once the files are durably in the region.
pub(super) fn load(server: &Arc<RegionServer>, call: &Call) -> Answer {
    let region_of: fn(&pb::BulkLoadHFileRequest) -> &pb::RegionSpecifier = |request| &request.region;
    blocking_on_region(server, call, region_of, |server, region, request| {
        let loaded = load_blocking(server, region, request)?;
        Ok(Reply::of(&pb::BulkLoadHFileResponse { loaded }))
    })
}

/// Loads the files of a request; returns `false` if some do not fit into the region.
fn load_blocking(
    server: &Arc<RegionServer>,
    region: &Arc<Region>,
    request: &pb::BulkLoadHFileRequest,
) -> Result<bool, Exception> {
    let files = &server.foundation().files;
    let sources =
        sources(server.source_paths(), request).map_err(|refused| exceptions::of_bulk_path(&refused))?;
    let of = |(pair, source): (&pb::bulk_load_h_file_request::FamilyPath, &Source)| BulkFile {
        family: Bytes::clone(&pair.family),
        path: pair.path.clone(),
        file: source.open(&**files),
        within: source.within(),
    };
    let load = BulkLoad {
        files: request.family_path.iter().zip(&sources).map(of).collect(),
        assign_sequence: request.assign_seq_num(),
        copy: request.copy_file(),
        token: request.bulk_token.clone(),
    };
    let (name, began) = (region.info(), server.foundation().world.moment());
    match region.bulk_load(&load) {
        Ok(BulkLoadOutcome::Loaded { bytes }) => tracing::info!(region = %name, table = %name.table(),
            files = sources.len(), bytes,
            ms = server.foundation().world.moment().since(began).as_millis() as u64, "files bulk-loaded"),
        Ok(BulkLoadOutcome::LoadedBefore) => tracing::info!(region = %name, table = %name.table(),
            files = sources.len(), "files were bulk-loaded by an earlier call"),
        Ok(BulkLoadOutcome::DoesNotFit(paths)) => {
            tracing::warn!(region = %name, table = %name.table(), files = paths.join(", "),
                "files to be bulk-loaded have rows of other regions: the client has to cut them");
            return Ok(false);
        }
        Err(error) => return Err(exceptions::of_bulk_load(&error, server.name())),
    }
    server.loaded(region);
    if !request.copy_file() {
        // If this server was replaced, its successor may have loaded the files, and the client written new ones by their names.
        let owned = server.foundation().log.check_owner().map_err(|error| error.to_string());
        for (source, pair) in sources.iter().zip(&request.family_path) {
            let delete = || source.delete(&**files).map_err(|error| error.to_string());
            if let Err(error) = owned.clone().and_then(|()| delete()) {
                tracing::warn!(
                    path = pair.path,
                    error,
                    "the file was bulk-loaded and cannot be deleted: delete it by hand, or load with copyFiles"
                );
            }
        }
    }
    Ok(true)
}
