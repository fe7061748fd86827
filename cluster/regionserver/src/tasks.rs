//! Lists what the server is doing, for HBase's `/rs-status?format=json` and its shell's `processlist`.
//!
//! Two kinds of work are listed. Background tasks (flushes, compactions, opening and closing regions) are listed until
//! a minute after their end, but of the ended ones only the last hundred. Calls of clients are listed while they wait
//! for the log, the disk or each other. A call that is answered on the thread that has read it is not listed.

mod calls;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use env::sync::Mutex;
use env::{Moment, WallTime, World};

pub(crate) use calls::{CallSlot, RunningCall, RunningCalls, Subject};

use crate::RegionServer;

/// Time for which a task is shown after its end.
const SHOWN_AFTER_END: Duration = Duration::from_secs(60);
/// Maximum number of ended tasks that are shown.
const ENDED_MAX: usize = 100;

/// The state of a task, in HBase's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// The task is running.
    Running,
    /// The task has succeeded.
    Complete,
    /// The task has failed.
    Aborted,
}

impl TaskState {
    /// Returns HBase's name of the state.
    pub fn name(self) -> &'static str {
        match self {
            TaskState::Running => "RUNNING",
            TaskState::Complete => "COMPLETE",
            TaskState::Aborted => "ABORTED",
        }
    }
}

/// Which tasks a page or the shell asks for (`filter` of `/rs-status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskFilter {
    /// Every task and every call.
    All,
    /// Background tasks.
    #[default]
    General,
    /// Calls. In HBase these are the handler threads, including idle ones, of which there are none here.
    Handler,
    /// Calls of clients.
    Rpc,
    /// Calls that read or write rows.
    Operation,
}

impl TaskFilter {
    /// Returns the filter with HBase's name; `None` for an unknown name.
    pub fn of_name(name: &str) -> Option<TaskFilter> {
        Some(match name {
            "all" => TaskFilter::All,
            "general" => TaskFilter::General,
            "handler" => TaskFilter::Handler,
            "rpc" => TaskFilter::Rpc,
            "operation" => TaskFilter::Operation,
            _ => return None,
        })
    }
}

/// A task or a call, as it was when the list was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What the task does, such as `Flushing t,,1700000000000.0123….`.
    pub description: String,
    /// The progress of the task, or how it ended.
    pub status: String,
    /// Whether the task runs or how it has ended.
    pub state: TaskState,
    /// When the task began.
    pub started: WallTime,
    /// When state and status last changed.
    pub changed: WallTime,
    /// The call of a client; `None` for a background task.
    pub call: Option<TaskCall>,
}

/// The call of a client behind a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCall {
    /// The name of the method, such as `Mutate`.
    pub method: String,
    /// The client's address.
    pub client: std::net::SocketAddr,
    /// Name of the region; empty if the request names none.
    pub region: String,
    /// Size of the request's frame in bytes.
    pub request_bytes: u64,
    /// Whether the call reads or writes rows.
    pub is_operation: bool,
}

/// The background tasks of a server.
#[derive(Debug)]
pub(crate) struct Tasks {
    world: World,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    running: Vec<(u64, Task)>,
    ended: VecDeque<(Moment, Task)>,
}

impl Tasks {
    pub(crate) fn new(world: World) -> Arc<Tasks> {
        Arc::new(Tasks { world, state: Mutex::default() })
    }

    /// Lists a task from now on. The caller ends the task with the guard; if the guard is dropped, the task is listed
    /// as aborted.
    pub(crate) fn begin(self: &Arc<Self>, description: String, status: &str) -> TaskGuard {
        let now = self.world.now();
        let status = status.to_owned();
        let task =
            Task { description, status, state: TaskState::Running, started: now, changed: now, call: None };
        let mut state = self.state.lock();
        state.last += 1;
        let id = state.last;
        state.running.push((id, task));
        TaskGuard { tasks: Arc::clone(self), id }
    }

    fn end(&self, id: u64, how: TaskState, status: String) {
        let mut state = self.state.lock();
        let Some(at) = state.running.iter().position(|(known, _)| *known == id) else { return };
        let (_, task) = state.running.remove(at);
        let task = Task { status, state: how, changed: self.world.now(), ..task };
        if state.ended.len() == ENDED_MAX {
            state.ended.pop_front();
        }
        state.ended.push_back((self.world.moment(), task));
    }

    fn snapshot(&self) -> Vec<Task> {
        let now = self.world.moment();
        let mut state = self.state.lock();
        state.ended.retain(|(ended, _)| now.since(*ended) < SHOWN_AFTER_END);
        let ended = state.ended.iter().map(|(_, task)| task.clone());
        ended.chain(state.running.iter().map(|(_, task)| task.clone())).collect()
    }
}

/// A running task. Dropping the guard without [`end`](TaskGuard::end) marks the task as failed.
#[derive(Debug)]
pub(crate) struct TaskGuard {
    tasks: Arc<Tasks>,
    id: u64,
}

impl TaskGuard {
    /// Replaces the status, while the task runs.
    pub(crate) fn status(&self, status: String) {
        let now = self.tasks.world.now();
        let mut state = self.tasks.state.lock();
        if let Some((_, task)) = state.running.iter_mut().find(|(known, _)| *known == self.id) {
            (task.status, task.changed) = (status, now);
        }
    }

    /// Ends the task with its outcome.
    pub(crate) fn end<T, E: std::fmt::Display>(self, outcome: &Result<T, E>) {
        match outcome {
            Ok(_) => self.tasks.end(self.id, TaskState::Complete, "done".to_owned()),
            Err(error) => self.tasks.end(self.id, TaskState::Aborted, format!("failed: {error}")),
        }
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.tasks.end(self.id, TaskState::Aborted, "broken off".to_owned());
    }
}

impl RegionServer {
    /// Returns the tasks and calls that `filter` selects, the oldest of each first.
    pub fn tasks(&self, filter: TaskFilter) -> Vec<Task> {
        let mut all = Vec::new();
        if matches!(filter, TaskFilter::All | TaskFilter::General) {
            all.extend(self.background_tasks.snapshot());
        }
        if filter != TaskFilter::General {
            let world = &self.foundation().world;
            let (now, moment) = (world.now(), world.moment());
            let mut calls = self.running_calls.snapshot();
            calls.sort_by_key(|call| call.received);
            let listed = calls.into_iter().map(|call| call.into_task(now, moment)).filter(|task| {
                filter != TaskFilter::Operation || task.call.as_ref().is_some_and(|call| call.is_operation)
            });
            all.extend(listed);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_listed_while_they_run_and_a_minute_longer() {
        let world = World::simulated(1, WallTime(1_000));
        let tasks = Tasks::new(world.clone());
        let flush = tasks.begin("Flushing r".to_owned(), "writing");
        let compaction = tasks.begin("Compacting r".to_owned(), "writing");
        let lost = tasks.begin("Opening r".to_owned(), "replaying");
        world.advance(Duration::from_millis(500));
        flush.end(&Ok::<_, String>(()));
        compaction.end::<(), _>(&Err("no room"));
        drop(lost);
        let shown: Vec<_> = tasks.snapshot().into_iter().map(|task| (task.state, task.status)).collect();
        assert_eq!(
            shown,
            [
                (TaskState::Complete, "done".to_owned()),
                (TaskState::Aborted, "failed: no room".to_owned()),
                (TaskState::Aborted, "broken off".to_owned()),
            ]
        );
        let running = tasks.begin("Flushing s".to_owned(), "writing");
        world.advance(SHOWN_AFTER_END);
        let shown = tasks.snapshot();
        assert_eq!(shown.len(), 1);
        assert_eq!((&*shown[0].description, shown[0].state.name()), ("Flushing s", "RUNNING"));
        assert_eq!((shown[0].started, shown[0].changed), (WallTime(1_500), WallTime(1_500)));
        drop(running);
        for _ in 0..2 * ENDED_MAX {
            tasks.begin("many".to_owned(), "").end(&Ok::<_, String>(()));
        }
        assert_eq!(tasks.snapshot().len(), ENDED_MAX);
    }

    #[test]
    fn filters_have_hbases_names() {
        let named = ["all", "general", "handler", "rpc", "operation"].map(TaskFilter::of_name);
        assert!(named.iter().all(Option::is_some));
        assert_eq!(TaskFilter::of_name("general"), Some(TaskFilter::default()));
        assert_eq!(TaskFilter::of_name("sleeping"), None);
    }
}
