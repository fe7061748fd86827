//! How much memory this process may use: the machine's memory, or the limit of its container.
//!
//! A container is a control group (cgroups 2 or 1) with a limit. The limits of the group's parents count, too. In a
//! container `/proc/self/cgroup` may contain paths of the host; then the group at the root is the container's.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory of the machine, and the limit of this process's container, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineMemory {
    /// The machine's memory; `None` if the system does not report it.
    pub machine: Option<u64>,
    /// The limit of the container, if it has one below the machine's memory, and the file that states it.
    pub limit: Option<(u64, PathBuf)>,
}

impl MachineMemory {
    /// Reads the memory and the limits that the system reports now.
    pub fn read() -> MachineMemory {
        let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        MachineMemory::of(of_machine, &groups, Path::new("/sys/fs/cgroup"))
    }

    fn of(machine: Option<u64>, groups: &str, root: &Path) -> MachineMemory {
        let limits = groups.lines().flat_map(|group| limits_of(group, root));
        let least = limits.min_by_key(|(bytes, _)| *bytes);
        MachineMemory {
            machine,
            limit: least.filter(|(bytes, _)| machine.is_none_or(|machine| *bytes < machine)),
        }
    }

    /// Returns the memory that this process may use, in bytes; `None` if the system shows neither a limit nor the
    /// machine's memory.
    pub fn usable(&self) -> Option<u64> {
        self.limit.as_ref().map(|(bytes, _)| *bytes).or(self.machine)
    }
}

/// Returns the machine's memory from the text of `/proc/meminfo`, in bytes; `None` if the text does not show it.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Returns the memory limits of the control group in a line of `/proc/self/cgroup`, `NUMBER:CONTROLLERS:PATH`, and of
/// its parents. Version 2 names no controllers. A process above its `memory.high` becomes too slow to be of use, so it
/// is a limit, too.
fn limits_of(group: &str, root: &Path) -> Vec<(u64, PathBuf)> {
    let mut parts = group.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (root, files): (PathBuf, &[&str]) = match controllers {
        "" => (root.to_owned(), &["memory.max", "memory.high"]),
        names if names.split(',').any(|name| name == "memory") => {
            (root.join("memory"), &["memory.limit_in_bytes"])
        }
        _ => return Vec::new(),
    };
    let below = root.join(path.trim_start_matches('/'));
    let folders = below.ancestors().take_while(|folder| folder.starts_with(&root));
    let files = folders.flat_map(|folder| files.iter().map(|file| folder.join(file)));
    // A file without a limit contains "max", which is not a number.
    files.filter_map(|file| Some((fs::read_to_string(&file).ok()?.trim().parse().ok()?, file))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 30;

    /// Writes `files` below a new folder and returns the folder.
    fn groups(files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("bellows-cgroup-{:x}", env::World::real().random()));
        for (name, text) in files {
            let file = root.join(name);
            fs::create_dir_all(file.parent().expect("below the root")).expect("made");
            fs::write(file, format!("{text}\n")).expect("written");
        }
        root
    }

    fn usable(groups_of_process: &str, files: &[(&str, &str)]) -> u64 {
        let root = groups(files);
        let found = MachineMemory::of(Some(16 * GB), groups_of_process, &root);
        fs::remove_dir_all(root).expect("removed");
        found.usable().expect("known") / GB
    }

    #[test]
    fn the_least_limit_of_a_group_and_its_parents_counts() {
        let two = (2 * GB).to_string();
        let four = (4 * GB).to_string();
        let v2 = "0::/system.slice/bellows.service";
        assert_eq!(usable(v2, &[("memory.max", "max")]), 16);
        assert_eq!(usable(v2, &[("system.slice/bellows.service/memory.max", &two)]), 2);
        let slice =
            [("system.slice/memory.max", &two[..]), ("system.slice/bellows.service/memory.max", &four)];
        assert_eq!(usable(v2, &slice), 2);
        let high = [("system.slice/bellows.service/memory.high", &two[..]), ("memory.max", &four)];
        assert_eq!(usable(v2, &high), 2);
        // In a container the root of the control groups is the container's own group, whatever the path says.
        assert_eq!(usable("0::/", &[("memory.max", &two)]), 2);
        assert_eq!(usable("0::/docker/abc", &[("memory.max", &two)]), 2);
        assert_eq!(
            usable("0::/", &[("memory.max", &(64 * GB).to_string())]),
            16,
            "more than the machine has"
        );
    }

    #[test]
    fn version_1_has_a_hierarchy_for_memory() {
        let two = (2 * GB).to_string();
        let v1 = "3:cpu,cpuacct:/docker/abc\n2:memory:/docker/abc\n1:name=systemd:/x";
        assert_eq!(usable(v1, &[("memory/docker/abc/memory.limit_in_bytes", &two)]), 2);
        assert_eq!(usable(v1, &[("memory/memory.limit_in_bytes", &two)]), 2);
        assert_eq!(usable(v1, &[("memory/memory.limit_in_bytes", "9223372036854771712")]), 16);
        assert_eq!(usable(v1, &[("cpu,cpuacct/docker/abc/memory.limit_in_bytes", &two)]), 16);
    }

    #[test]
    fn without_readable_files_the_limit_is_unknown() {
        assert_eq!(MachineMemory::of(None, "nonsense", Path::new("/nowhere")), MachineMemory::default());
        assert_eq!(total("MemTotal:       16384 kB\n"), Some(16 << 20));
        assert_eq!(total("MemFree: 1 kB\n"), None);
    }
}
