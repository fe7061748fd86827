//! The on-disk format of MOB: names of MOB files, the list of them in a store file, and reference cells. See
//! [`mob`](crate::mob).

pub(crate) mod names;
pub(crate) mod reference;
