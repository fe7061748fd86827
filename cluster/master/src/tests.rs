//! Tests of the master with a disk and two region servers in memory: every change, and every change interrupted at each
//! of its steps.

mod crash;
mod described_regions;
mod doubt;
mod fake;
mod false_alarms;
mod hbck;
mod mirror;
mod mob_compactions;
mod namespaces;
mod nonsense;
mod normalizer;
mod procedures;
mod recovery_snapshots;
mod replaced;
mod schemas;
mod servers;
mod service;
mod snapshots;
mod tables;
mod trackers;
