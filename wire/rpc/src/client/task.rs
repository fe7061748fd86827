//! The task of a client connection: writes the frames of calls, reads answers, and wakes callers.

use std::future::{Future, poll_fn};
use std::io::IoSlice;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use env::Stream;
use tokio::io::{AsyncReadExt, AsyncWrite};

use super::{Error, Options, Outcome, Shared, decode, take_frame};
use crate::envelope::NO_CALL;
use crate::output::Output;

/// Minimum free room for one read, in bytes.
const READ: usize = 64 << 10;

pub(super) async fn run(stream: Stream, shared: Arc<Shared>, options: Options) {
    let idle = Box::pin(env::sleep(options.idle_max));
    let mut task =
        Task { stream, options, input: BytesMut::new(), output: Output::default(), idle, used: false };
    let error = poll_fn(|context| task.poll(&shared, context)).await;
    tracing::debug!(address = %shared.address, %error, "connection ended");
    shared.end(error);
}

struct Task {
    stream: Stream,
    options: Options,
    input: BytesMut,
    output: Output,
    idle: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Whether the connection has sent or received anything since the idle timer was set.
    used: bool,
}

impl Task {
    /// Makes progress with writes and reads; completes when the connection has ended.
    fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Error> {
        loop {
            let mut moved = false;
            {
                let mut state = shared.state.lock();
                if let Some(ended) = &state.ended {
                    return Poll::Ready(ended.clone());
                }
                if self.output.is_empty() {
                    std::mem::swap(&mut self.output, &mut state.output);
                }
                // From now on a caller that sends a request wakes this task.
                if !state.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
                    state.task = Some(context.waker().clone());
                }
            }
            match self.write(shared, context) {
                Poll::Ready(Ok(wrote)) => moved |= wrote,
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Pending => {}
            }
            match self.read(shared, context) {
                Poll::Ready(Ok(())) => moved = true,
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Pending => {}
            }
            self.used |= moved;
            if self.idle.as_mut().poll(context).is_ready() {
                let quiet = !self.used && shared.state.lock().waiting.is_empty();
                if quiet {
                    let reason = format!("nobody called for {:?}", self.options.idle_max);
                    return Poll::Ready(Error::Closed { address: shared.address, reason });
                }
                self.used = false;
                self.idle = Box::pin(env::sleep(self.options.idle_max));
                moved = true;
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    /// Writes all pending output; returns `true` if there was any.
    fn write(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        let mut wrote = false;
        while !self.output.is_empty() {
            let mut slices = [IoSlice::new(&[]); 16];
            let used = self.output.slices(&mut slices);
            match ready!(Pin::new(&mut self.stream).poll_write_vectored(context, &slices[..used])) {
                Ok(0) => return Poll::Ready(Err(lost(shared, "it takes no more bytes"))),
                Ok(sent) => self.output.advance(sent),
                Err(error) => return Poll::Ready(Err(lost(shared, error))),
            }
            wrote = true;
        }
        Poll::Ready(Ok(wrote))
    }

    /// Reads once, and passes complete answers to their callers.
    fn read(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.input.capacity() - self.input.len() < READ / 4 {
            // The buffer grows with the bytes that were received. A length that the server claims allocates nothing.
            self.input.reserve(READ.max(self.input.len()));
        }
        match ready!(pin!(self.stream.read_buf(&mut self.input)).poll(context)) {
            Ok(0) => return Poll::Ready(Err(lost(shared, "the server closed it"))),
            Ok(_) => {}
            Err(error) => return Poll::Ready(Err(lost(shared, error))),
        }
        loop {
            let limit = self.options.response_size_max;
            let unreadable = |reason| Error::Unreadable { address: shared.address, reason };
            let frame = match take_frame(&mut self.input, limit) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Poll::Ready(Ok(())),
                Err(reason) => return Poll::Ready(Err(unreadable(reason))),
            };
            match decode(&frame, self.options.compressor, limit) {
                Ok((NO_CALL, Err(exception))) => return Poll::Ready(Err(Error::Remote(exception))),
                Ok((call_id, outcome)) => hand_out(shared, call_id, outcome.map_err(Error::Remote)),
                Err(reason) => return Poll::Ready(Err(unreadable(reason))),
            }
        }
    }
}

fn hand_out(shared: &Shared, call_id: u32, outcome: Outcome) {
    let sender = shared.state.lock().waiting.remove(&call_id);
    if let Some(sender) = sender {
        // The send fails if the caller has just given up, and then nobody needs the outcome.
        let _gone = sender.send(outcome);
    }
}

fn lost(shared: &Shared, reason: impl ToString) -> Error {
    Error::Lost { address: shared.address, reason: reason.to_string() }
}
