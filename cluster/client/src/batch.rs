//! Runs many actions at once: groups them by server and region, and retries each action on its own.
//!
//! 1. The client locates the region of every action that is not done.
//! 2. Actions for one server share a request, or several if they are long. In it, actions for one region share a part
//!    (a `RegionAction`). Actions that must be atomic have a part of their own. The cells are in the cell block, in the
//!    order of the actions.
//! 3. The client sends all requests, then reads all answers. A part fails as a whole or action by action.
//! 4. Actions that failed with a retriable error start again at step 1. A server refuses the rest of a batch when its reply
//!    is full. As long as each round ends some actions, such a refusal does not count as a failed attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proto::{ServerName, pb};
use rpc::Exception;
use rpc::client::{Happened, Invocation};

use crate::cluster::specifier;
use crate::location::LookupMode;
use crate::operation::Mutation;
use crate::row::{Cells, unreadable};
use crate::{Advice, CheckAndMutate, Error, Get, Location, Pause, Result, Row, RowMutations, Table};

const METHOD: &str = "Multi";

/// An action of a batch.
#[derive(Clone, Debug)]
pub enum Action {
    /// Read a row.
    Get(Get),
    /// Change a row.
    Mutation(Mutation),
    /// Apply several changes to one row atomically.
    RowMutations(RowMutations),
    /// Change a row if a condition holds.
    CheckAndMutate(CheckAndMutate),
}

macro_rules! actions {
    ($($kind:ident),*) => {
        $(impl From<crate::$kind> for Action {
            fn from(mutation: crate::$kind) -> Action {
                Action::Mutation(mutation.into())
            }
        })*
    };
}

actions!(Put, Delete, Increment, Append);

impl From<Get> for Action {
    fn from(get: Get) -> Action {
        Action::Get(get)
    }
}

/// The result of one action of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The cells that were read, or the cells that the change returns.
    pub row: Row,
    /// Whether the condition held; true for actions without a condition.
    pub processed: bool,
}

impl Action {
    fn row(&self) -> &Bytes {
        match self {
            Action::Get(get) => &get.row,
            Action::Mutation(mutation) => &mutation.row,
            Action::RowMutations(mutations) => &mutations.row,
            Action::CheckAndMutate(check) => &check.row,
        }
    }

    fn check(&self) -> Result<()> {
        match self {
            Action::Get(get) if get.row.is_empty() => {
                Err(Error::Invalid("a row's key cannot be empty".to_owned()))
            }
            Action::Get(_) => Ok(()),
            Action::Mutation(mutation) => mutation.check(),
            Action::RowMutations(mutations) => mutations.check(),
            Action::CheckAndMutate(check) => check.check(),
        }
    }

    /// Returns the changes that must be applied atomically, and their condition; `None` for other actions.
    fn whole(&self) -> Option<(&[Mutation], Option<pb::Condition>)> {
        match self {
            Action::RowMutations(mutations) => Some((&mutations.mutations, None)),
            Action::CheckAndMutate(check) => Some((&check.mutations, Some(check.condition()))),
            _ => None,
        }
    }

    fn size(&self) -> usize {
        match self {
            Action::Get(_) => 64,
            Action::Mutation(mutation) => mutation.size(),
            Action::RowMutations(RowMutations { mutations, .. })
            | Action::CheckAndMutate(CheckAndMutate { mutations, .. }) => {
                mutations.iter().map(Mutation::size).sum()
            }
        }
    }
}

/// The part of a request for one region, with the indices of its actions in the batch.
struct Part {
    location: Arc<Location>,
    indexes: Vec<usize>,
}

/// The outcome of each action of the batch after one round; `None` if the action has not ended.
type RoundOutcomes = Vec<Option<Result<Outcome>>>;

#[derive(Default)]
struct Request {
    message: pb::MultiRequest,
    cells: Vec<u8>,
    parts: Vec<Part>,
    size: usize,
}

impl Table {
    /// Runs many actions on any rows, in no particular order. Returns one result for each action, in the order given.
    pub async fn batch(&self, actions: Vec<Action>) -> Vec<Result<Outcome>> {
        let mut outcomes: Vec<Option<Result<Outcome>>> =
            actions.iter().map(|action| action.check().err().map(Err)).collect();
        // The nonce stays the same in every attempt, so that the server recognizes a retry.
        let nonces: Vec<u64> = actions.iter().map(|_| self.cluster.0.world.random()).collect();
        let mut pending: Vec<usize> = (0..actions.len()).filter(|index| outcomes[*index].is_none()).collect();
        let mut tries = self.cluster.tries();
        // Whether an earlier attempt of the action may have been applied.
        let mut is_in_doubt = vec![false; actions.len()];
        while !pending.is_empty() {
            let mut failed = BTreeMap::new();
            let mut ended = self.round(&actions, &nonces, &pending).await;
            for &index in &pending {
                match ended[index].take().expect("a round ends every action") {
                    Err(error) if error.advice() != Advice::GiveUp => {
                        is_in_doubt[index] |= error.happened() == Happened::Maybe;
                        failed.insert(index, error);
                    }
                    Err(error) if is_in_doubt[index] && error.happened() == Happened::No => {
                        outcomes[index] = Some(Err(tries.given_up(error)));
                    }
                    outcome => outcomes[index] = Some(outcome),
                }
            }
            let some_ended = failed.len() < pending.len();
            pending = failed.keys().copied().collect();
            let Some(error) = decisive(failed.values()).cloned() else { break };
            let error = self.cluster.explained(&self.name, error).await;
            if error.advice() == Advice::GiveUp {
                for index in pending {
                    let is_known = !is_in_doubt[index];
                    let end = if is_known { error.clone() } else { tries.given_up(error.clone()) };
                    outcomes[index] = Some(Err(end));
                }
                break;
            }
            let outcome = match error.advice() {
                Advice::Wait(Pause::None) if some_ended => tries.go_on(error),
                _ => tries.again(error).await,
            };
            if let Err(end) = outcome {
                let (count, time) = match &end {
                    Error::GivenUp { tries, elapsed, .. } => (*tries, *elapsed),
                    _ => (1, std::time::Duration::ZERO),
                };
                for (index, error) in failed {
                    let last = Box::new(error);
                    outcomes[index] = Some(Err(Error::GivenUp { tries: count, elapsed: time, last }));
                }
                break;
            }
        }
        outcomes.into_iter().map(|outcome| outcome.expect("every action has ended")).collect()
    }

    /// Tries each pending action once and returns its outcome.
    async fn round(&self, actions: &[Action], nonces: &[u64], pending: &[usize]) -> RoundOutcomes {
        let mut ended: RoundOutcomes = vec![None; actions.len()];
        let mut found: Vec<Part> = Vec::new();
        for &index in pending {
            let row = actions[index].row();
            // Most batches have rows of few regions. So the region of the previous action is tried first.
            if let Some(part) = found.last_mut()
                && part.location.region.contains_row(row)
            {
                part.indexes.push(index);
                continue;
            }
            match self.cluster.find(&self.name, row, LookupMode::Of).await {
                Ok(location) => found.push(Part { location, indexes: vec![index] }),
                Err(error) => ended[index] = Some(Err(error)),
            }
        }
        let mut regions: BTreeMap<ServerName, BTreeMap<Bytes, Part>> = BTreeMap::new();
        for Part { location, indexes } in found {
            let parts = regions.entry(location.server.clone()).or_default();
            let part = parts.entry(location.region.name().clone());
            part.or_insert_with(|| Part { location, indexes: Vec::new() }).indexes.extend(indexes);
        }
        let mut calls = Vec::new();
        for (server, parts) in regions {
            for request in self.requests(actions, nonces, parts.into_values(), &mut ended) {
                let connection = match self.cluster.connection(&server).await {
                    Ok(connection) => connection,
                    Err(error) => {
                        self.fail(&error, &request.parts, &mut ended);
                        continue;
                    }
                };
                let invocation = Invocation::of(METHOD, &request.message).with_cells(request.cells);
                let region = &request.parts[0].location.region;
                // All requests are sent before the first answer is awaited.
                calls.push((connection.call(self.cluster.timed(region, invocation)), request.parts));
            }
        }
        for (call, parts) in calls {
            let answered = match call.await {
                Ok(response) => self.take_in(actions, response, &parts, &mut ended),
                Err(error) => Err(error.into()),
            };
            if let Err(error) = answered {
                self.fail(&error, &parts, &mut ended);
            }
        }
        ended
    }

    /// Records the same error for every action without an answer.
    fn fail(&self, error: &Error, parts: &[Part], ended: &mut RoundOutcomes) {
        for part in parts {
            self.cluster.learn(error, &part.location);
            for &index in &part.indexes {
                ended[index].get_or_insert_with(|| Err(error.clone()));
            }
        }
    }

    /// Builds the requests for one server.
    fn requests(
        &self,
        actions: &[Action],
        nonces: &[u64],
        parts: impl Iterator<Item = Part>,
        ended: &mut RoundOutcomes,
    ) -> Vec<Request> {
        let size_max = self.cluster.0.options.batch_size_max;
        let mut requests = vec![Request::default()];
        for part in parts {
            // Whether the last part for this region takes further independent actions. There is none at first, or after
            // an atomic part.
            let mut open = false;
            for index in part.indexes {
                let action = &actions[index];
                if requests
                    .last()
                    .is_some_and(|request| request.size > 0 && request.size + action.size() > size_max)
                {
                    requests.push(Request::default());
                    open = false;
                }
                let request = requests.last_mut().expect("there is one");
                request.size += action.size();
                let whole = action.whole();
                if !open || whole.is_some() {
                    request.message.region_action.push(pb::RegionAction {
                        region: specifier(&part.location.region),
                        atomic: whole.is_some().then_some(true),
                        condition: whole.as_ref().and_then(|(_, condition)| condition.clone()),
                        action: Vec::new(),
                    });
                    request.parts.push(Part { location: part.location.clone(), indexes: Vec::new() });
                }
                open = whole.is_none();
                let nonce = |mutation: &Mutation, offset: usize| {
                    mutation.needs_nonce().then(|| nonces[index].wrapping_add(offset as u64))
                };
                let mut encoded = Vec::new();
                let before = request.cells.len();
                let result = match action {
                    Action::Get(get) => {
                        encoded.push(pb::Action { get: Some(get.to_message()), ..pb::Action::default() });
                        Ok(())
                    }
                    Action::Mutation(mutation) => {
                        encode(&[mutation], nonce, &mut encoded, &mut request.cells)
                    }
                    _ => {
                        let (mutations, _) = whole.expect("the others are done");
                        let mutations: Vec<&Mutation> = mutations.iter().collect();
                        encode(&mutations, nonce, &mut encoded, &mut request.cells)
                    }
                };
                if let Err(error) = result {
                    request.cells.truncate(before);
                    ended[index] = Some(Err(error));
                    continue;
                }
                let region_action = request.message.region_action.last_mut().expect("pushed above");
                for (offset, mut action) in encoded.into_iter().enumerate() {
                    // The answer gives the action's index in the batch or, in an atomic part, its index in the part.
                    let place = if region_action.atomic() { offset } else { index };
                    action.index = Some(place as u32);
                    region_action.action.push(action);
                }
                request.parts.last_mut().expect("pushed above").indexes.push(index);
            }
        }
        for request in &mut requests {
            request.message.nonce_group = Some(self.cluster.0.nonce_group);
            // An action that could not be encoded may leave an empty part.
            let empty: Vec<bool> =
                request.message.region_action.iter().map(|part| part.action.is_empty()).collect();
            let mut keep = empty.iter().map(|empty| !empty);
            request.message.region_action.retain(|_| keep.next().expect("as many"));
            request.parts.retain(|part| !part.indexes.is_empty());
        }
        requests.retain(|request| !request.parts.is_empty());
        requests
    }

    /// Decodes an answer into the outcomes of its actions. If this fails, the caller records the error for every action
    /// without an outcome.
    fn take_in(
        &self,
        actions: &[Action],
        response: rpc::client::Response,
        parts: &[Part],
        ended: &mut RoundOutcomes,
    ) -> Result<()> {
        let answer: pb::MultiResponse = crate::cluster::decode(METHOD, &response)?;
        let mut cells = Cells::new(METHOD, response.cells)?;
        if answer.region_action_result.len() != parts.len() {
            let (found, expected) = (answer.region_action_result.len(), parts.len());
            return Err(unreadable(METHOD, format!("{found} results for {expected} regions")));
        }
        for (part, result) in parts.iter().zip(&answer.region_action_result) {
            if let Some(exception) = &result.exception {
                let error = remote(exception);
                self.cluster.learn(&error, &part.location);
                part.indexes.iter().for_each(|index| ended[*index] = Some(Err(error.clone())));
                continue;
            }
            let whole = match part.indexes[..] {
                [index] if actions[index].whole().is_some() => Some(index),
                _ => None,
            };
            let mut outcome = Outcome { processed: result.processed.unwrap_or(true), ..Outcome::default() };
            let mut error = None;
            for entry in &result.result_or_exception {
                let one = match (&entry.exception, &entry.result) {
                    (Some(exception), _) => Err(remote(exception)),
                    (None, Some(result)) => Ok(cells.row(result)?),
                    (None, None) => Ok(Row::default()),
                };
                match (whole, one) {
                    // An atomic part returns the results of all its changes together.
                    (Some(_), Ok(row)) => outcome.row.cells.extend(row.cells),
                    (Some(_), Err(failure)) => error = Some(failure),
                    (None, one) => {
                        let index = entry.index() as usize;
                        // Actions keep their order, so the indices in a part ascend.
                        if part.indexes.binary_search(&index).is_err() {
                            return Err(unreadable(
                                METHOD,
                                format!("a result for action {index}, which is not its"),
                            ));
                        }
                        if let Err(failure) = &one {
                            self.cluster.learn(failure, &part.location);
                        }
                        ended[index] = Some(one.map(|row| Outcome { row, processed: true }));
                    }
                }
            }
            if let Some(index) = whole {
                if let Some(failure) = &error {
                    self.cluster.learn(failure, &part.location);
                }
                ended[index] = Some(error.map_or(Ok(outcome), Err));
            }
        }
        let missing = parts.iter().flat_map(|part| &part.indexes).any(|index| ended[*index].is_none());
        if missing { Err(unreadable(METHOD, "actions without a result")) } else { Ok(()) }
    }
}

/// Returns the error that decides how long the batch waits: the first that asks for a pause, or else the first.
fn decisive<'e>(errors: impl Iterator<Item = &'e Error> + Clone) -> Option<&'e Error> {
    let pauses = |error: &&Error| error.advice() != Advice::Wait(Pause::None);
    errors.clone().find(pauses).or_else(|| errors.clone().next())
}

fn encode(
    mutations: &[&Mutation],
    nonce: impl Fn(&Mutation, usize) -> Option<u64>,
    encoded: &mut Vec<pb::Action>,
    cells: &mut Vec<u8>,
) -> Result<()> {
    for (offset, mutation) in mutations.iter().enumerate() {
        let message = mutation.to_message_with_cells(nonce(mutation, offset), cells)?;
        encoded.push(pb::Action { mutation: Some(message), ..pb::Action::default() });
    }
    Ok(())
}

/// Converts a server's exception inside an answer, its Java class and its message, to an error.
fn remote(pair: &pb::NameBytesPair) -> Error {
    let text = String::from_utf8_lossy(pair.value()).into_owned();
    let message = text.strip_prefix(&format!("{}: ", pair.name)).map(str::to_owned).unwrap_or(text);
    Error::Remote(Exception::new(pair.name.clone(), message))
}

#[cfg(test)]
mod tests {
    use rpc::class;

    use super::*;

    #[test]
    fn a_batch_waits_if_any_of_its_errors_asks_for_it() {
        let error = |class: &'static str| Error::Remote(Exception::new(class, "m"));
        let errors = [class::MULTI_ACTION_RESULT_TOO_LARGE, class::REGION_TOO_BUSY, class::IO].map(error);
        let class = |errors: &[Error]| decisive(errors.iter()).and_then(Error::class).map(str::to_owned);
        assert_eq!(class(&errors).as_deref(), Some(class::REGION_TOO_BUSY));
        assert_eq!(class(&errors[..1]).as_deref(), Some(class::MULTI_ACTION_RESULT_TOO_LARGE));
        assert_eq!(class(&[]), None);
    }
}
