//! What the command line says about a run.

use std::fmt;

use crate::faults::Kind;
use crate::preset::Preset;
use crate::random::Random;
use crate::server::Settings;
use crate::target::Target;

/// The workload that reads from the read replica. A run with a replica has it, and no other run.
pub(crate) const FOLLOWED: &str = "followed";

/// Options of a run that do not follow from its seed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The [planted bug](crate::planted); 0 for none.
    pub planted: u32,
    /// Kinds of faults in addition to those that the seed chooses.
    pub faults: Vec<Kind>,
    /// Workloads in addition to those that the seed chooses.
    pub workloads: Vec<String>,
    /// Whether a run has no workloads and kinds of faults except these.
    pub only: bool,
    /// Groups of settings that do not follow from the seed.
    pub presets: Vec<Preset>,
}

impl Options {
    /// Applies the presets, and moves the files and the log so that each named fault has an effect.
    pub(crate) fn apply(&self, settings: &mut Settings, random: &mut Random) {
        self.presets.iter().for_each(|preset| preset.apply(settings, random));
        for target in [Target::Store, Target::LogInStore, Target::Shared, Target::Replica, Target::Disk] {
            if self.faults.iter().any(|kind| kind.target() == target) {
                settings.provide(target, random);
            }
        }
        match self.workloads.iter().any(|name| name == FOLLOWED) {
            true => settings.provide(Target::Replica, random),
            // Nobody would read from the replica.
            false => settings.has_replica &= !self.only,
        }
    }

    /// Returns an error text if a named fault or workload would have no effect: a preset puts the files elsewhere, or
    /// another fault or workload needs them elsewhere.
    pub fn contradiction(&self) -> Option<String> {
        let faults = self.faults.iter().map(|kind| (kind.target(), format!("the fault {kind:?}")));
        let follows = self.workloads.iter().any(|name| name == FOLLOWED);
        let workload = follows.then(|| (Target::Replica, format!("the workload {FOLLOWED}")));
        let needs: Vec<(Target, String)> = faults.chain(workload).collect();
        needs.iter().find_map(|(target, what)| {
            if let Some(preset) = self.presets.iter().find(|preset| !preset.allows(*target)) {
                return Some(format!("{what} has no effect with the preset {preset:?}"));
            }
            let is_on_hdfs = self.presets.contains(&Preset::Hdfs);
            let is_in_store = |(target, _): &&(Target, String)| match target {
                Target::LogInStore | Target::Replica => true,
                // Without the preset a run may have the log on a local disk, and then it moves to the store.
                Target::Shared => !is_on_hdfs,
                Target::Server | Target::Disk | Target::Store => false,
            };
            let (_, other) = needs.iter().find(is_in_store).filter(|_| *target == Target::Disk)?;
            Some(format!("{what} needs the log on the disk, and {other} needs it in the store"))
        })
    }
}

impl fmt::Display for Options {
    /// Formats the options as on the command line, with a space before each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.planted > 0 {
            write!(f, " --planted {}", self.planted)?;
        }
        self.faults.iter().try_for_each(|kind| write!(f, " --fault {kind:?}"))?;
        self.workloads.iter().try_for_each(|name| write!(f, " --workload {name}"))?;
        if self.only {
            write!(f, " --only")?;
        }
        self.presets.iter().try_for_each(|preset| write!(f, " --preset {preset:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::PLANTED;

    fn options(faults: &[Kind], presets: &[Preset]) -> Options {
        Options { faults: faults.to_vec(), presets: presets.to_vec(), ..Options::default() }
    }

    #[test]
    fn each_named_fault_has_an_effect_in_each_seed() {
        let presets = [&[][..], &[Preset::Disk], &[Preset::Hdfs], &[Preset::Store], &[Preset::LogInStore]];
        for kind in Kind::ALL {
            for presets in presets {
                let options = options(&[kind], presets);
                if options.contradiction().is_some() {
                    continue;
                }
                for seed in 0..20 {
                    let mut random = Random::new(seed);
                    let mut settings = Settings::draw(&mut random);
                    options.apply(&mut settings, &mut random);
                    assert!(settings.has(kind.target()), "{options} in seed {seed}");
                }
            }
        }
    }

    #[test]
    fn a_fault_without_an_effect_is_refused() {
        let words = |faults: &[Kind], presets: &[Preset]| options(faults, presets).contradiction();
        assert_eq!(
            words(&[Kind::Kill, Kind::FailingDisk], &[Preset::NoFlushes, Preset::LogInStore]).as_deref(),
            Some("the fault FailingDisk has no effect with the preset LogInStore")
        );
        assert_eq!(
            words(&[Kind::TakeOver], &[Preset::Disk]).as_deref(),
            Some("the fault TakeOver has no effect with the preset Disk")
        );
        assert_eq!(
            words(&[Kind::TakeOver, Kind::FullDisk], &[]).as_deref(),
            Some(
                "the fault FullDisk needs the log on the disk, and the fault TakeOver needs it in the store"
            )
        );
        let mut followed = options(&[Kind::FullDisk], &[]);
        followed.workloads.push(FOLLOWED.to_owned());
        assert_eq!(
            followed.contradiction().as_deref(),
            Some(
                "the fault FullDisk needs the log on the disk, and the workload followed needs it in the store"
            )
        );
        assert!(words(&[Kind::Replica, Kind::FailingDisk], &[]).is_some());
        (followed.faults, followed.presets) = (Vec::new(), vec![Preset::Disk]);
        assert_eq!(
            followed.contradiction().as_deref(),
            Some("the workload followed has no effect with the preset Disk")
        );
        assert_eq!(words(&[Kind::FailingStore, Kind::FailingDisk], &[Preset::Store]), None);
    }

    #[test]
    fn the_faults_of_each_hunt_have_an_effect() {
        for bug in PLANTED {
            let named = |option: &str| {
                let words = bug.hunt.split_whitespace();
                let after = bug.hunt.split_whitespace().skip(1);
                let values: Vec<&str> =
                    words.zip(after).filter(|(word, _)| *word == option).map(|pair| pair.1).collect();
                values
            };
            let faults: Vec<Kind> = named("--fault").into_iter().filter_map(Kind::of_name).collect();
            let presets: Vec<Preset> = named("--preset").into_iter().filter_map(Preset::of_name).collect();
            assert_eq!(options(&faults, &presets).contradiction(), None, "planted {}", bug.number);
        }
    }
}
