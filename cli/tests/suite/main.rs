//! The command line against real servers.

mod command_line;
mod common;
mod doctor;
mod doctor_locks;
mod exec;
mod exec_losses;
mod exec_pauses;
mod job;
mod kinds;
mod labels;
mod lead;
mod listing;
mod not_ready;
mod operating;
mod proxies;
mod steps;
