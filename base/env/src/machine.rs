//! What this machine calls itself.

/// The machine's own host name, as others in its network are likely to know it; `None` when it has none, or one that is
/// not text.
pub fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    // What a Linux answers that nobody has named.
    (!name.is_empty() && name != "(none)").then_some(name)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_one_that_the_system_shows() {
        let shown = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux shows it");
        let shown = Some(shown.trim()).filter(|name| !name.is_empty() && *name != "(none)");
        assert_eq!(host_name().as_deref(), shown);
    }
}
