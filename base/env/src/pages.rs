//! How the system gives this process memory.

/// Has the system give out memory in pages of its usual size, 4 KB, from now on, and in none of 2 MB. False where it
/// cannot be told so; then it does as it likes.
///
/// A large page is cleared, and often room is made for it, when its first byte is touched: for 0.1 to 6 ms in which the
/// thread that happens to touch it serves nobody.
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
    fn the_system_gives_none() {
        let before = rustix::thread::transparent_huge_pages_are_disabled().expect("known");
        assert!(forgo_huge_pages());
        assert!(rustix::thread::transparent_huge_pages_are_disabled().expect("known"));
        // Other tests of this process go on as they began.
        rustix::thread::disable_transparent_huge_pages(before).expect("as before");
    }
}
