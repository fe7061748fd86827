//! What the command line says about a run.

use std::fmt;

use crate::faults::Kind;
use crate::preset::Preset;

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
