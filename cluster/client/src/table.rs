//! Reads and writes of one table.

use proto::{TableName, pb};
use rpc::client::{Invocation, Response};

use crate::cluster::{decode, specifier};
use crate::operation::Mutation;
use crate::row::Cells;
use crate::{
    Action, Append, CheckAndMutate, Cluster, Delete, Error, Get, Increment, Put, Result, Row, RowMutations,
    Scan, Scanner,
};

/// A table of a cluster, for reads and writes. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) cluster: Cluster,
    pub(crate) name: TableName,
}

impl Table {
    pub(crate) fn new(cluster: Cluster, name: TableName) -> Table {
        Table { cluster, name }
    }

    /// Returns the table's name.
    pub fn name(&self) -> &TableName {
        &self.name
    }

    /// Reads a row. A row that does not exist is returned empty.
    pub async fn get(&self, get: Get) -> Result<Row> {
        let (result, mut cells) = self.read(get).await?;
        cells.row(&result)
    }

    /// Whether the read would return any cell.
    pub async fn exists(&self, get: Get) -> Result<bool> {
        let (result, _) = self.read(get.existence_only()).await?;
        Ok(result.exists())
    }

    async fn read(&self, get: Get) -> Result<(pb::Result, Cells)> {
        const METHOD: &str = "Get";
        if get.row.is_empty() {
            return Err(Error::Invalid("a row's key cannot be empty".to_owned()));
        }
        let message = get.to_message();
        let make = |location: &crate::Location| {
            let region = specifier(&location.region);
            Invocation::of(METHOD, &pb::GetRequest { region, get: message.clone() })
        };
        let response = self.cluster.on_row(&self.name, &get.row, make).await?;
        let answer: pb::GetResponse = decode(METHOD, &response)?;
        Ok((answer.result.unwrap_or_default(), Cells::new(METHOD, response.cells)?))
    }

    /// Writes cells.
    pub async fn put(&self, put: Put) -> Result<()> {
        self.mutate(&put.into(), None).await.map(|_| ())
    }

    /// Deletes cells.
    pub async fn delete(&self, delete: Delete) -> Result<()> {
        self.mutate(&delete.into(), None).await.map(|_| ())
    }

    /// Adds to counters, and returns the new values. The row is empty if the increment asks for no results.
    pub async fn increment(&self, increment: Increment) -> Result<Row> {
        self.mutate(&increment.into(), None).await.map(|(_, row)| row)
    }

    /// Appends to values, and returns the new values. The row is empty if the append asks for no results.
    pub async fn append(&self, append: Append) -> Result<Row> {
        self.mutate(&append.into(), None).await.map(|(_, row)| row)
    }

    /// Applies several changes to one row atomically. Returns the new values of increments and appends among them.
    pub async fn mutate_row(&self, mutations: RowMutations) -> Result<Row> {
        self.alone(Action::RowMutations(mutations)).await.map(|(_, row)| row)
    }

    /// Changes a row if a condition holds. Returns whether it held, and the result of the change.
    pub async fn check_and_mutate(&self, check: CheckAndMutate) -> Result<(bool, Row)> {
        check.check()?;
        match &check.mutations[..] {
            [mutation] => self.mutate(mutation, Some(check.condition())).await,
            _ => self.alone(Action::CheckAndMutate(check)).await,
        }
    }

    async fn alone(&self, action: Action) -> Result<(bool, Row)> {
        let mut outcomes = self.batch(vec![action]).await;
        let outcome = outcomes.pop().expect("one for each action")?;
        Ok((outcome.processed, outcome.row))
    }

    async fn mutate(&self, mutation: &Mutation, condition: Option<pb::Condition>) -> Result<(bool, Row)> {
        const METHOD: &str = "Mutate";
        mutation.check()?;
        let shared = &self.cluster.0;
        // The nonce stays the same in every attempt, so that the server recognizes a retry.
        let nonce = mutation.needs_nonce().then(|| shared.world.random());
        let message = mutation.to_message(nonce);
        let make = |location: &crate::Location| {
            let request = pb::MutateRequest {
                region: specifier(&location.region),
                mutation: message.clone(),
                condition: condition.clone(),
                nonce_group: nonce.map(|_| shared.nonce_group),
            };
            Invocation::of(METHOD, &request)
        };
        let response: Response = self.cluster.on_row(&self.name, &mutation.row, make).await?;
        let answer: pb::MutateResponse = decode(METHOD, &response)?;
        let mut cells = Cells::new(METHOD, response.cells)?;
        let row = cells.row(&answer.result.clone().unwrap_or_default())?;
        Ok((answer.processed(), row))
    }

    /// Writes many rows. If some cannot be written, the others are, and [`Error::Batch`] names those that failed.
    pub async fn put_all(&self, puts: impl IntoIterator<Item = Put>) -> Result<()> {
        self.all(puts.into_iter().map(|put| Action::Mutation(put.into())).collect()).await.map(|_| ())
    }

    /// Deletes from many rows. If some deletions fail, the others are done, and [`Error::Batch`] names those that
    /// failed.
    pub async fn delete_all(&self, deletes: impl IntoIterator<Item = Delete>) -> Result<()> {
        self.all(deletes.into_iter().map(|delete| Action::Mutation(delete.into())).collect())
            .await
            .map(|_| ())
    }

    /// Reads many rows, and returns them in the order of the reads. If any read fails, returns [`Error::Batch`] and no
    /// row.
    pub async fn get_all(&self, gets: impl IntoIterator<Item = Get>) -> Result<Vec<Row>> {
        self.all(gets.into_iter().map(Action::Get).collect()).await
    }

    async fn all(&self, actions: Vec<Action>) -> Result<Vec<Row>> {
        let total = actions.len();
        let (mut rows, mut failed) = (Vec::with_capacity(total), Vec::new());
        for (index, outcome) in self.batch(actions).await.into_iter().enumerate() {
            match outcome {
                Ok(outcome) => rows.push(outcome.row),
                Err(error) => failed.push((index, error)),
            }
        }
        if failed.is_empty() { Ok(rows) } else { Err(Error::Batch { total, failed }) }
    }

    /// Returns a scanner over the table. It sends nothing to a server before its first row is requested.
    pub fn scan(&self, scan: Scan) -> Scanner {
        Scanner::new(self.clone(), scan)
    }
}
