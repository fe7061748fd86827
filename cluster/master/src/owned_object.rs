//! Small objects of which one master is the only writer: the [intents](crate::intents), the
//! [records of procedures](crate::procedure::records), and the [switches](crate::switches).
//!
//! Each write of an object has another number. So if a store carries out a swap late, the swap does not find the
//! content that it expects. Each master begins at a random number greater than the last one, so the number in the
//! object shows which master wrote it. If another process wrote the object, that process has taken over the files, and
//! this master reports that the server must end.
//!
//! In storage that several processes reach, a master also writes the object when it opens it. After that, an earlier
//! master that hung and goes on cannot change the object. It may also hang before it opens the object, and would then
//! take the object from the later master. So the upper bits of a number are the [epoch](Tenure::epoch) of the process
//! that wrote it. Who finds a greater epoch than its own asks whether it still owns the files. It may: a log that is
//! begun anew in another place begins with a small epoch.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use contract::Tenure;
use env::sync::Mutex;
use env::{FirstFailure, World};
use prost::Message;
use proto::pb;
use rpc::Exception;
use storage::{Capability, FileName, Files, Kind, Outcome, Version, swap_confirmed};

use crate::Error;

/// Number of the lower bits of a write's number; the bits above them are the epoch.
const EPOCH_SHIFT: u32 = 40;

/// The greatest epoch that a number has. A server does not start 16 million times.
const EPOCH_MAX: u64 = u64::MAX >> EPOCH_SHIFT;

/// Whether this process owns the files, and where it reports that it does not.
pub(crate) struct Ownership {
    tenure: Arc<dyn Tenure>,
    /// Records that another process has taken over the files.
    pub(crate) replaced: Arc<FirstFailure>,
}

impl Ownership {
    pub(crate) fn new(tenure: Arc<dyn Tenure>) -> Ownership {
        Ownership { tenure, replaced: Arc::default() }
    }

    /// Returns the number that precedes the first write of this process, for an object whose last write is `found`. Fails
    /// if a later owner of the files has written the object `name`.
    fn first_number(&self, found: u64, name: &FileName, random: u64) -> Result<u64, Error> {
        let epoch = self.tenure.epoch().min(EPOCH_MAX);
        if found >> EPOCH_SHIFT > epoch && !env::planted(40) {
            let of_later =
                |cause: Exception| Error::OfLaterOwner { name: name.clone(), cause: cause.message };
            self.tenure.confirm().map_err(of_later)?;
        }
        Ok(found.max(epoch << EPOCH_SHIFT).wrapping_add(random >> 32))
    }
}

/// What an object stores. The default value is the content of an object that does not exist.
pub(crate) trait Content: Clone + Default {
    /// Maximum size of the object, in bytes.
    const SIZE_MAX: usize;

    /// The planted bug by which a master that opens the object only reads it.
    const ONLY_READ_BUG: Option<u32>;

    /// Returns the bytes of the object with this content, as its write number `written`.
    fn encode(&self, written: u64) -> Vec<u8>;

    /// Returns the content of an object, and the number of its last write; 0 if the object has no number.
    fn decode(bytes: &[u8]) -> Result<(Self, u64), proto::Error>;
}

/// Writes a number with a name, as a delimited message `NameBytesPair{name, number 8B}`.
pub(crate) fn encode_number(out: &mut Vec<u8>, name: &str, number: u64) {
    let value = Some(Bytes::copy_from_slice(&number.to_be_bytes()));
    let message = pb::NameBytesPair { name: name.into(), value };
    message.encode_length_delimited(out).expect("a growing buffer takes any message");
}

/// Removes the number with this name from the beginning of `bytes`, and returns it. Returns 0 if `bytes` does not begin
/// with it, as in objects of earlier versions of this program. `what` names the object in errors.
pub(crate) fn decode_number(bytes: &mut Bytes, name: &str, what: &'static str) -> Result<u64, proto::Error> {
    let mut rest = bytes.clone();
    if !rest.has_remaining() {
        return Ok(0);
    }
    let message = pb::NameBytesPair::decode_length_delimited(&mut rest)
        .map_err(|cause| proto::Error::Decode { what, cause })?;
    if message.name != name {
        return Ok(0);
    }
    *bytes = rest;
    let number = message.value.as_deref().and_then(|value| value.try_into().ok()).map(u64::from_be_bytes);
    number.ok_or_else(|| proto::Error::Malformed {
        what,
        found: format!("whose number {name:?} has not 8 bytes"),
    })
}

/// An object that this process opened as its only writer.
pub(crate) struct OwnedObject<T> {
    files: Arc<dyn Files>,
    name: FileName,
    state: Mutex<State<T>>,
    /// The number of the last write when this master opened the object.
    found: u64,
    /// The number that precedes this master's first write.
    first: u64,
    /// Where this master reports that another process has written the object.
    ownership: Arc<Ownership>,
}

struct State<T> {
    content: T,
    /// The version of the object that was last read or written; `None` while the object does not exist.
    version: Option<Version>,
    /// Whether a write of the object failed but may have happened. Then the object must be read before the next change.
    is_in_doubt: bool,
    /// The number of the last write of the object.
    written: u64,
}

impl<T: Content> State<T> {
    fn read(files: &dyn Files, name: &FileName) -> Result<State<T>, Error> {
        let object = match files.load(name, T::SIZE_MAX) {
            Ok(object) => object,
            Err(error) if error.kind() == Kind::NotFound => {
                return Ok(State { content: T::default(), version: None, is_in_doubt: false, written: 0 });
            }
            Err(error) => return Err(error.into()),
        };
        let (content, written) = T::decode(&object.content)
            .map_err(|cause| Error::Damaged { name: name.clone(), cause: Box::new(cause) })?;
        Ok(State { content, version: Some(object.version), is_in_doubt: false, written })
    }
}

/// Reads the object `name`, whose master does not run.
pub(crate) fn read<T: Content>(files: &dyn Files, name: &FileName) -> Result<T, Error> {
    Ok(State::read(files, name)?.content)
}

impl<T: Content> OwnedObject<T> {
    /// Reads the object, and prevents earlier masters from changing it. Fails if a later master has opened it. If another
    /// process writes the object later, this is recorded in `ownership`.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        name: FileName,
        world: &World,
        ownership: Arc<Ownership>,
    ) -> Result<OwnedObject<T>, Error> {
        let is_shared =
            !files.capabilities().has(Capability::OneProcess) && !T::ONLY_READ_BUG.is_some_and(env::planted);
        loop {
            let mut state: State<T> = State::read(&*files, &name)?;
            let found = state.written;
            let first = ownership.first_number(found, &name, world.random())?;
            state.written = first;
            if is_shared {
                // An earlier master may have read the same version of the object. A write with a greater number makes
                // its next write fail.
                state.written += 1;
                let bytes = state.content.encode(state.written);
                match swap_confirmed(&*files, &name, state.version.as_ref(), &bytes) {
                    Ok(version) => state.version = Some(version),
                    Err(error) if error.kind() == Kind::Conflict => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            return Ok(OwnedObject { files, name, state: Mutex::new(state), found, first, ownership });
        }
    }

    /// Calls `look` with the content that was last read or written.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.state.lock().content)
    }

    /// Calls `look` with the content of the object, which is read first if a write may have happened.
    pub(crate) fn look_confirmed<R>(&self, look: impl FnOnce(&T) -> R) -> storage::Result<R> {
        let mut state = self.state.lock();
        if state.is_in_doubt {
            self.read_again(&mut state)?;
        }
        Ok(look(&state.content))
    }

    /// Changes the content, and returns what `change` returns. The change is durable then. `change` is called again
    /// with newer content if a write finds another version of the object than the expected one.
    ///
    /// Fails with [`Kind::Conflict`] if another process has taken over the object.
    pub(crate) fn change<R>(&self, change: impl Fn(&mut T) -> R) -> storage::Result<R> {
        let mut state = self.state.lock();
        loop {
            if state.is_in_doubt {
                self.read_again(&mut state)?;
            }
            // The object belongs to the other process, so this master no longer changes it.
            self.check_replaced("write")?;
            let mut content = state.content.clone();
            let answer = change(&mut content);
            // The number also grows if the write fails, because the store may carry out the write later.
            state.written += 1;
            let written = state.written;
            let bytes = content.encode(written);
            match swap_confirmed(&*self.files, &self.name, state.version.as_ref(), &bytes) {
                Ok(version) => {
                    *state = State { content, version: Some(version), is_in_doubt: false, written };
                    return Ok(answer);
                }
                // The object has not the expected version. Either the store has carried out an earlier write of this
                // master late, or another process wrote the object.
                Err(error) if error.kind() == Kind::Conflict => state.is_in_doubt = true,
                Err(error) => {
                    state.is_in_doubt = error.outcome() == Outcome::MayHaveHappened;
                    return Err(error);
                }
            }
        }
    }

    /// Reads the object to find out whether another process has taken it over, and fails with [`Kind::Conflict`] if so. Reads
    /// nothing in storage that only one process reaches.
    pub(crate) fn check_owner(&self) -> storage::Result<()> {
        if self.files.capabilities().has(Capability::OneProcess) {
            return Ok(());
        }
        self.read_again(&mut self.state.lock())?;
        self.check_replaced("read")
    }

    fn check_replaced(&self, act: &'static str) -> storage::Result<()> {
        if !self.ownership.replaced.has_happened() {
            return Ok(());
        }
        Err(storage::Error::new(Kind::Conflict, Outcome::DidNotHappen, &self.name, act)
            .because("another process has taken over"))
    }

    /// Reads the object after a failed write, and finds out whether this master is still its only writer.
    fn read_again(&self, state: &mut State<T>) -> storage::Result<()> {
        let found = State::read(&*self.files, &self.name).map_err(|error| match error {
            Error::Storage(error) => error,
            error => storage::Error::new(Kind::Failed, Outcome::DidNotHappen, &self.name, "read")
                .because(error.to_string()),
        })?;
        let is_own = (self.first..=state.written).contains(&found.written);
        if !is_own && found.written != self.found {
            let name = &self.name;
            self.ownership.replaced.record(|| {
                format!(
                    "another process writes {name}: it has taken over the files of this server, which must end. Start \
                     only one server in a root directory"
                )
            });
        }
        let written = state.written.max(found.written);
        *state = State { written, ..found };
        Ok(())
    }
}

#[cfg(test)]
impl Default for Ownership {
    fn default() -> Ownership {
        Ownership::new(Arc::new(tests::Epoch { epoch: 1, is_current: true }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;
    use storage::Memory;
    use storage::memory::Fault;

    /// The tenure of a process with this epoch.
    pub(super) struct Epoch {
        pub(super) epoch: u64,
        pub(super) is_current: bool,
    }

    impl Tenure for Epoch {
        fn epoch(&self) -> u64 {
            self.epoch
        }

        fn confirm(&self) -> Result<(), Exception> {
            if self.is_current { Ok(()) } else { Err(Exception::io("server b owns the log")) }
        }
    }

    /// The words of the object, after the number of the write.
    type Words = Vec<String>;

    impl Content for Words {
        const SIZE_MAX: usize = 1000;
        const ONLY_READ_BUG: Option<u32> = None;

        fn encode(&self, written: u64) -> Vec<u8> {
            format!("{written} {}", self.join(" ")).into_bytes()
        }

        fn decode(bytes: &[u8]) -> Result<(Words, u64), proto::Error> {
            let text = String::from_utf8(bytes.to_vec()).expect("text");
            let (number, words) = text.split_once(' ').expect("a number");
            let words = words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
            Ok((words.collect(), number.parse().expect("a number")))
        }
    }

    fn fail(memory: &Memory, last: bool) {
        let (act, outcome) = (memory.acts() + 1, Outcome::MayHaveHappened);
        memory.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last }));
    }

    fn name() -> FileName {
        FileName::new("object")
    }

    fn open(memory: &Memory, seed: u64) -> OwnedObject<Words> {
        let world = World::simulated(seed, WallTime(1));
        OwnedObject::open(Arc::new(memory.clone()), name(), &world, Arc::default()).unwrap()
    }

    fn open_as(memory: &Memory, epoch: u64, is_current: bool) -> Result<OwnedObject<Words>, Error> {
        let ownership = Ownership::new(Arc::new(Epoch { epoch, is_current }));
        let world = World::simulated(epoch, WallTime(1));
        OwnedObject::open(Arc::new(memory.clone()), name(), &world, Arc::new(ownership))
    }

    fn add(object: &OwnedObject<Words>, word: &str) -> storage::Result<()> {
        object.change(|words| words.push(word.to_owned()))
    }

    fn words(object: &OwnedObject<Words>) -> String {
        object.look(|words| words.join(" "))
    }

    /// A process that was stopped and continues detects that another process has its files, whichever of the two writes
    /// first.
    #[test]
    fn a_master_that_was_replaced_says_so() {
        let memory = Memory::new();
        for old_writes_before in [false, true] {
            let old = open(&memory, 1);
            if old_writes_before {
                add(&old, "a").unwrap();
            }
            let new = open(&memory, 2);
            add(&new, "b").unwrap();
            assert_eq!(add(&old, "c").unwrap_err().kind(), Kind::Conflict);
            assert!(old.ownership.replaced.has_happened(), "{old_writes_before}");
            add(&new, "d").expect("the other one goes on");
            assert!(!new.ownership.replaced.has_happened(), "{old_writes_before}");
        }
        assert_eq!(words(&open(&memory, 3)), "b d a b d");
    }

    #[test]
    fn a_master_that_goes_on_after_another_has_started_changes_nothing() {
        let memory = Memory::with(storage::Capabilities::NONE);
        let old = open(&memory, 1);
        add(&old, "a").unwrap();
        let new = open(&memory, 2);
        for word in ["b", "c"] {
            assert_eq!(add(&old, word).unwrap_err().kind(), Kind::Conflict);
            assert!(old.ownership.replaced.has_happened());
        }
        assert_eq!(read::<Words>(&memory, &name()).unwrap(), ["a"]);
        add(&new, "d").expect("it is the only writer");
        assert!(!new.ownership.replaced.has_happened());
    }

    /// A process that hangs while it starts opens the object after the one that has taken over.
    #[test]
    fn a_start_that_was_replaced_takes_nothing_from_the_later_owner() {
        let memory = Memory::with(storage::Capabilities::NONE);
        add(&open_as(&memory, 5, true).unwrap(), "a").unwrap();
        let later = open_as(&memory, 7, true).unwrap();
        let message = open_as(&memory, 6, false).err().expect("it is refused").to_string();
        assert!(message.contains("object") && message.contains("server b owns the log"), "{message}");
        add(&later, "b").expect("it is the only writer");
        assert!(!later.ownership.replaced.has_happened());
        assert_eq!(read::<Words>(&memory, &name()).unwrap(), ["a", "b"]);
    }

    /// A log that is begun anew in another place begins with a small epoch.
    #[test]
    fn an_owner_with_a_small_epoch_opens_the_object() {
        let memory = Memory::with(storage::Capabilities::NONE);
        let old = open_as(&memory, 7, true).unwrap();
        add(&old, "a").unwrap();
        let new = open_as(&memory, 1, true).unwrap();
        add(&new, "b").expect("it is the only writer");
        assert_eq!(add(&old, "c").unwrap_err().kind(), Kind::Conflict);
        assert!(old.ownership.replaced.has_happened() && !new.ownership.replaced.has_happened());
        assert_eq!(read::<Words>(&memory, &name()).unwrap(), ["a", "b"]);
    }

    /// A store may carry out a write after this master has read the object again. The master must recognise it as its
    /// own.
    #[test]
    fn a_late_write_of_its_own_does_not_end_a_master() {
        let memory = Memory::new();
        let object = open(&memory, 1);
        add(&object, "a").unwrap();
        let before = object.state.lock().version.clone();
        // This write stands for the late one: it has a number of this master, but a version that this master has not
        // seen.
        add(&object, "b").unwrap();
        object.state.lock().version = before;
        add(&object, "c").expect("the object is read and written once more");
        assert!(!object.ownership.replaced.has_happened());
        assert_eq!(words(&open(&memory, 2)), "a b c");
    }

    #[test]
    fn a_write_that_happened_and_reported_failure_is_found_out() {
        let memory = Memory::new();
        let object = open(&memory, 1);
        add(&object, "a").unwrap();
        fail(&memory, false);
        add(&object, "b").expect("it is read again and written once more");
        assert_eq!(words(&open(&memory, 1)), "a b");
        add(&object, "c").expect("the content is known");
        // All changes fail, and so does every attempt to settle the first.
        fail(&memory, true);
        assert_eq!(add(&object, "d").unwrap_err().outcome(), Outcome::MayHaveHappened);
        assert_eq!(words(&object), "a b c", "the outcome is unknown");
        assert_eq!(object.look_confirmed(Vec::len).expect("it is read"), 4);
        assert_eq!(words(&open(&memory.kill(), 1)), "a b c d");
    }

    #[test]
    fn a_change_in_doubt_is_read_before_the_next() {
        let memory = Memory::new();
        let object = open(&memory, 1);
        add(&object, "a").unwrap();
        // Makes the state as it is after a failure whose outcome is unknown.
        *object.state.lock() = State {
            content: Vec::new(),
            version: Some(Version::new(*b"other")),
            is_in_doubt: true,
            written: 0,
        };
        object.state.lock().written = object.first + 1;
        assert_eq!(object.look_confirmed(Vec::clone).expect("it is read"), ["a"]);
        add(&object, "b").expect("the object was read first");
        assert_eq!(words(&object), "a b");
    }

    #[test]
    fn no_two_writes_are_equal() {
        let memory = Memory::new();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let object = open(&memory, 1);
            for _ in 0..2 {
                object.change(|_| ()).unwrap();
                seen.push(memory.read(&name(), 1000).unwrap());
            }
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 6);
    }
}
