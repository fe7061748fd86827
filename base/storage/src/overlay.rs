//! An implementation of [`Files`] for tests that overrides some calls of another one.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Capabilities, Entry, FileName, FileReader, FileWriter, Files, Object, ReserveState, Result, Settled,
    Version,
};

/// Passes each call to [`below`](Overlay::below) unless the implementation overrides it. For tests that make a call
/// slow, wrong or refused.
///
/// Implementations name the trait by its path, because its methods have the names of those of [`Files`].
#[expect(missing_docs, reason = "each method is that of `Files` of the same name")]
pub trait Overlay: Send + Sync + 'static {
    /// Returns the wrapped files.
    fn below(&self) -> &dyn Files;

    fn capabilities(&self) -> Capabilities {
        self.below().capabilities()
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        self.below().create(name)
    }

    /// Calls [`create`](Overlay::create), which an implementation may override.
    fn create_reserved(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        Overlay::create(self, name)
    }

    fn reuse_space(
        &self,
        name: &FileName,
        given_up: &FileName,
        marker: &[u8],
    ) -> Result<Box<dyn FileWriter>> {
        self.below().reuse_space(name, given_up, marker)
    }

    fn link(&self, from: &FileName, to: &FileName) -> Result<()> {
        self.below().link(from, to)
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        self.below().open(name)
    }

    fn sync(&self, name: &FileName) -> Result<()> {
        self.below().sync(name)
    }

    fn forget(&self, name: &FileName) {
        self.below().forget(name);
    }

    fn seal(&self, name: &FileName) -> Result<()> {
        self.below().seal(name)
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        self.below().list(folder)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        self.below().delete(name)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        self.below().load(name, bytes_max)
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        self.below().swap(name, expected, new)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        self.below().settle(name, expected, new)
    }

    /// Returns `None`, because the files below know nothing of the overriding calls.
    fn under_one_deadline(&self) -> Option<Arc<dyn Files>> {
        None
    }

    fn sync_pause(&self, waited: Duration) -> Duration {
        self.below().sync_pause(waited)
    }

    fn bytes_free(&self) -> Result<u64> {
        self.below().bytes_free()
    }

    fn is_taken_over(&self) -> Result<bool> {
        self.below().is_taken_over()
    }
}

impl<T: Overlay> Files for T {
    fn capabilities(&self) -> Capabilities {
        Overlay::capabilities(self)
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        Overlay::create(self, name)
    }

    fn create_reserved(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        Overlay::create_reserved(self, name)
    }

    fn reuse_space(
        &self,
        name: &FileName,
        given_up: &FileName,
        marker: &[u8],
    ) -> Result<Box<dyn FileWriter>> {
        Overlay::reuse_space(self, name, given_up, marker)
    }

    fn link(&self, from: &FileName, to: &FileName) -> Result<()> {
        Overlay::link(self, from, to)
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        Overlay::open(self, name)
    }

    fn sync(&self, name: &FileName) -> Result<()> {
        Overlay::sync(self, name)
    }

    fn forget(&self, name: &FileName) {
        Overlay::forget(self, name);
    }

    fn seal(&self, name: &FileName) -> Result<()> {
        Overlay::seal(self, name)
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        Overlay::list(self, folder)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        Overlay::delete(self, name)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        Overlay::load(self, name, bytes_max)
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        Overlay::swap(self, name, expected, new)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        Overlay::settle(self, name, expected, new)
    }

    fn under_one_deadline(&self) -> Option<Arc<dyn Files>> {
        Overlay::under_one_deadline(self)
    }

    fn sync_pause(&self, waited: Duration) -> Duration {
        Overlay::sync_pause(self, waited)
    }

    fn is_taken_over(&self) -> Result<bool> {
        Overlay::is_taken_over(self)
    }

    fn place(&self) -> String {
        self.below().place()
    }

    fn bytes_free(&self) -> Result<u64> {
        Overlay::bytes_free(self)
    }

    fn keep_reserve(&self) -> Result<ReserveState> {
        self.below().keep_reserve()
    }

    fn spend_reserve(&self) -> bool {
        self.below().spend_reserve()
    }

    fn reserve_state(&self) -> ReserveState {
        self.below().reserve_state()
    }
}
