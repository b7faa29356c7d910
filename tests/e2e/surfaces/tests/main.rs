//! Compares the surfaces, and runs them together on one lock.

mod commands;
mod emulations;
mod play;
mod same;
mod together;
