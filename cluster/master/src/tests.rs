//! The master on a disk and two region servers in memory: every change, and every change cut short at each of its acts.

mod crash;
mod fake;
mod false_alarms;
mod hbck;
mod nonsense;
mod normalizer;
mod servers;
mod service;
mod snapshots;
mod tables;
