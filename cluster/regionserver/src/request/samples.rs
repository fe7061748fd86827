//! Test data for the decoders.

use proto::{FamilyDescriptor, TableDescriptor};

/// Returns the descriptor of a table `t` with the families `f` and `g`.
pub(super) fn table() -> TableDescriptor {
    let mut table = TableDescriptor::new("t".parse().expect("a name"));
    for family in ["f", "g"] {
        table.set_family(FamilyDescriptor::new(family).expect("a name"));
    }
    table
}

/// Damages an encoded message: cuts it, repeats its end, or changes a byte. `any` returns a random number below its
/// argument.
pub(super) fn bend(bytes: &mut Vec<u8>, any: &impl Fn(u64) -> u64) {
    if bytes.is_empty() {
        return;
    }
    let at = any(bytes.len() as u64) as usize;
    match any(3) {
        0 => bytes.truncate(at),
        1 => bytes.extend_from_within(at..),
        _ => bytes[at] = any(256) as u8,
    }
}
