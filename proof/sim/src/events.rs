//! Writes the server's log events (`tracing`) into the transcript.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::scheduler::try_scheduler;

/// Writes events into the transcript of the simulation that runs in the thread. Spans are left out.
pub(crate) struct Events;

/// The words of an event: the message, then each field as `name=value`.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _never = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let Some(scheduler) = try_scheduler() else { return };
        scheduler.note(|| {
            let mut words = Words::default();
            event.record(&mut words);
            let (level, target) = (event.metadata().level(), event.metadata().target());
            format!("{level:<6} {target}: {}{}", words.message, words.fields)
        });
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}
