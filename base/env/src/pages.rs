//! How the system allocates memory for this process.

/// From now on, makes the system allocate this process's memory in pages of 4 KB and never of 2 MB. Returns `false`
/// where the system does not support this and chooses page sizes itself.
///
/// The system clears a large page, and often compacts memory for it, when its first byte is touched. That takes 0.1
/// to 6 ms, in which the thread that touches it serves no request.
pub fn forgo_huge_pages() -> bool {
    #[cfg(target_os = "linux")]
    let is_done = rustix::thread::disable_transparent_huge_pages(true).is_ok();
    #[cfg(not(target_os = "linux"))]
    let is_done = false;
    is_done
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_can_be_turned_off() {
        let before = rustix::thread::transparent_huge_pages_are_disabled().expect("known");
        assert!(forgo_huge_pages());
        assert!(rustix::thread::transparent_huge_pages_are_disabled().expect("known"));
        // Restores the setting, which other tests of this process need.
        rustix::thread::disable_transparent_huge_pages(before).expect("as before");
    }
}
