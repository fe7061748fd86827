//! The master over a disk and a region server in memory: every change, and every change cut short at each of its acts.

mod crash;
mod fake;
mod hbck;
mod nonsense;
mod servers;
mod service;
mod tables;
