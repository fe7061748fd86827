//! Keys of another service that outlast an outage of that service.
//!
//! The library asks for new keys from five minutes before the end of those that it has, and fails a request if it gets none,
//! although the old keys are still valid. [`LastingKeys`] goes on with the old ones:
//!
//! - The library does not say when keys end. But when it gives keys without asking for new ones, they are valid for five more
//!   minutes. Until then no request waits for new keys: they are asked for in the background, again and again.
//! - After that a request waits for new keys, and fails without them. So it does after a process was suspended.
//!
//! Keys that had less than five minutes left when they were fetched may end earlier. Then the store refuses the requests.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use env::sync::Mutex;
use env::{Moment, World};
use object_store::CredentialProvider;

use crate::with_causes;

/// For how long keys are valid that the library gives without asking for new ones. This is a constant of the library.
const VALID_FOR: Duration = Duration::from_secs(300);
/// Pause after a failed attempt to get new keys.
const PAUSE: Duration = Duration::from_secs(5);

type Answer<K> = object_store::Result<Arc<K>>;
type Asking<K> = Pin<Box<dyn Future<Output = Answer<K>> + Send>>;

/// Gives the keys of `source`, and the previous ones while that has none.
pub(crate) struct LastingKeys<K> {
    source: Arc<dyn CredentialProvider<Credential = K>>,
    world: World,
    state: Arc<Mutex<State<K>>>,
}

struct State<K> {
    known: Option<Known<K>>,
    /// Whether new keys are asked for in the background.
    is_asking: bool,
    /// When the last attempt failed; `None` if it did not.
    failed: Option<Moment>,
}

struct Known<K> {
    keys: Arc<K>,
    /// When the source last gave these keys.
    given: Moment,
}

impl<K: Send + Sync + 'static> LastingKeys<K> {
    pub(crate) fn new(
        source: Arc<dyn CredentialProvider<Credential = K>>,
        world: World,
    ) -> Arc<LastingKeys<K>> {
        let state = State { known: None, is_asking: false, failed: None };
        Arc::new(LastingKeys { source, world, state: Arc::new(Mutex::new(state)) })
    }

    fn ask(&self) -> Asking<K> {
        let source = Arc::clone(&self.source);
        Box::pin(async move { source.get_credential().await })
    }

    /// Returns keys that are valid, if that needs no wait.
    fn at_once(&self) -> Option<Arc<K>> {
        let mut state = self.state.lock();
        let now = self.world.moment();
        let valid = state.known.as_ref().filter(|known| now.since(known.given) < VALID_FOR);
        let valid = Arc::clone(&valid?.keys);
        if state.is_asking || state.failed.is_some_and(|failed| now.since(failed) < PAUSE) {
            return Some(valid);
        }
        let mut asking = self.ask();
        match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => {
                state.note(&answer, &self.world);
                Some(answer.unwrap_or(valid))
            }
            Poll::Pending => {
                state.is_asking = true;
                let (shared, world) = (Arc::clone(&self.state), self.world.clone());
                drop(env::spawn(async move {
                    let answer = asking.await;
                    let mut state = shared.lock();
                    state.is_asking = false;
                    state.note(&answer, &world);
                }));
                Some(valid)
            }
        }
    }
}

impl<K> State<K> {
    fn note(&mut self, answer: &Answer<K>, world: &World) {
        let now = world.moment();
        match answer {
            Ok(keys) => {
                if self.failed.take().is_some() {
                    tracing::info!("there are new keys for the object store again");
                }
                self.known = Some(Known { keys: Arc::clone(keys), given: now });
            }
            Err(error) => {
                if let Some(known) = &self.known {
                    let seconds_left = VALID_FOR.saturating_sub(now.since(known.given)).as_secs();
                    tracing::warn!(
                        error = with_causes(error),
                        seconds_left,
                        "no new keys for the object store: the previous ones are used as long as they are valid; check the service \
                         that gives the keys"
                    );
                }
                self.failed = Some(now);
            }
        }
    }
}

impl<K> Debug for LastingKeys<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LastingKeys").field("source", &self.source).finish_non_exhaustive()
    }
}

impl<K: Debug + Send + Sync + 'static> CredentialProvider for LastingKeys<K> {
    type Credential = K;

    fn get_credential<'provider, 'keys>(
        &'provider self,
    ) -> Pin<Box<dyn Future<Output = Answer<K>> + Send + 'keys>>
    where
        'provider: 'keys,
        Self: 'keys,
    {
        Box::pin(async move {
            if let Some(keys) = self.at_once() {
                return Ok(keys);
            }
            let answer = self.ask().await;
            self.state.lock().note(&answer, &self.world);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use env::{Runtime, WallTime};

    use super::*;

    /// A service that gives keys with growing numbers, as long as it works.
    #[derive(Debug, Default)]
    struct Service {
        is_down: Mutex<bool>,
        /// Whether an answer takes a while, as that of another process does.
        is_slow: Mutex<bool>,
        given: Mutex<u64>,
    }

    impl CredentialProvider for Service {
        type Credential = u64;

        fn get_credential<'provider, 'keys>(
            &'provider self,
        ) -> Pin<Box<dyn Future<Output = Answer<u64>> + Send + 'keys>>
        where
            'provider: 'keys,
            Self: 'keys,
        {
            Box::pin(async move {
                if *self.is_slow.lock() {
                    env::sleep(Duration::from_millis(1)).await;
                }
                if *self.is_down.lock() {
                    let source = "connection refused".into();
                    return Err(object_store::Error::Generic { store: "metadata", source });
                }
                let mut given = self.given.lock();
                *given += 1;
                Ok(Arc::new(*given))
            })
        }
    }

    #[test]
    fn an_outage_of_the_service_ends_no_valid_keys() {
        let runtime = Runtime::start("test", 1).expect("a thread");
        for is_slow in [false, true] {
            let world = World::simulated(1, WallTime(1));
            let service = Arc::new(Service::default());
            *service.is_slow.lock() = is_slow;
            let keys = LastingKeys::new(Arc::clone(&service) as _, world.clone());
            let handle = runtime.handle();
            let get = || handle.block_on(keys.get_credential()).map(|keys| *keys);
            // Lets a question in the background end.
            let settle = || {
                while keys.state.lock().is_asking {
                    handle.block_on(env::sleep(Duration::from_millis(1)));
                }
            };
            let first = get().expect("the service works");
            assert_eq!(first, 1_u64);
            *service.is_down.lock() = true;
            for _ in 0..29 {
                world.pause(Duration::from_secs(10));
                assert_eq!(get().expect("they are valid"), first, "{is_slow}");
                settle();
            }
            world.pause(Duration::from_secs(11));
            let error = get().expect_err("they may have ended").to_string();
            assert!(error.contains("connection refused"), "{error}");
            *service.is_down.lock() = false;
            let second = get().expect("the service works again");
            assert!(second > first);
            settle();
            world.pause(Duration::from_secs(3_600));
            assert!(get().expect("it waits for new ones") > second, "the process was suspended");
            settle();
        }
    }
}
