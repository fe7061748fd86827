//! Calls to a region other than reads and writes: coprocessor endpoints and bulk loads.

use bytes::Bytes;
use prost::Message;
use proto::pb;
use rpc::client::Invocation;

use crate::cluster::{decode, specifier};
use crate::{CheckAndMutate, Error, Result, Table};

impl Table {
    /// Calls a coprocessor endpoint of the region that contains `row`, with an encoded request. Returns the encoded
    /// response.
    pub async fn call_endpoint(
        &self,
        row: impl Into<Bytes>,
        service: &str,
        method: &str,
        request: impl Into<Bytes>,
    ) -> Result<Bytes> {
        const METHOD: &str = "ExecService";
        let row = row.into();
        let call = pb::CoprocessorServiceCall {
            row: row.clone(),
            service_name: service.to_owned(),
            method_name: method.to_owned(),
            request: request.into(),
        };
        let make = |location: &crate::Location| {
            let region = specifier(&location.region);
            Invocation::of(METHOD, &pb::CoprocessorServiceRequest { region, call: call.clone() })
        };
        let response = self.cluster.on_row(&self.name, &row, make).await?;
        let answer: pb::CoprocessorServiceResponse = decode(METHOD, &response)?;
        Ok(answer.value.value.unwrap_or_default())
    }

    /// Changes several rows atomically if every condition holds, and returns whether they did. The rows must be in one
    /// region; otherwise nothing is changed, and the call fails. No nonce protects increments and appends here: an
    /// attempt that is repeated may add twice.
    pub async fn mutate_rows(&self, checks: &[CheckAndMutate]) -> Result<bool> {
        const SERVICE: &str = "MultiRowMutationService";
        const METHOD: &str = "MutateRows";
        let Some(first) = checks.first() else { return Ok(true) };
        checks.iter().try_for_each(CheckAndMutate::check)?;
        let mutations = checks.iter().flat_map(|check| &check.mutations);
        let request = pb::MutateRowsRequest {
            mutation_request: mutations.map(|mutation| mutation.to_message(None)).collect(),
            condition: checks.iter().map(CheckAndMutate::condition).collect(),
            ..pb::MutateRowsRequest::default()
        };
        let request = request.encode_to_vec();
        let response = self.call_endpoint(first.row.clone(), SERVICE, METHOD, request).await?;
        let answer = pb::MutateRowsResponse::decode(response)
            .map_err(|error| Error::Unreadable { method: METHOD, reason: error.to_string() })?;
        Ok(answer.processed())
    }

    /// Loads HFiles into the region that has `row`. `files` are pairs of a family and a path that the server can open.
    /// All of them become visible at once, and the server then deletes them at their old paths. It recognizes a
    /// repeated load by `token`. Returns `false`, and loads nothing, if the files have rows of other regions.
    pub async fn bulk_load(
        &self,
        row: impl Into<Bytes>,
        files: &[(&str, &str)],
        token: &str,
    ) -> Result<bool> {
        const METHOD: &str = "BulkLoadHFile";
        let row = row.into();
        let path = |(family, path): &(&str, &str)| pb::bulk_load_h_file_request::FamilyPath {
            family: Bytes::copy_from_slice(family.as_bytes()),
            path: (*path).to_owned(),
        };
        let make = |location: &crate::Location| {
            let request = pb::BulkLoadHFileRequest {
                region: specifier(&location.region),
                family_path: files.iter().map(path).collect(),
                assign_seq_num: Some(true),
                bulk_token: Some(token.to_owned()),
                ..pb::BulkLoadHFileRequest::default()
            };
            Invocation::of(METHOD, &request)
        };
        let response = self.cluster.on_row(&self.name, &row, make).await?;
        let answer: pb::BulkLoadHFileResponse = decode(METHOD, &response)?;
        Ok(answer.loaded)
    }
}
