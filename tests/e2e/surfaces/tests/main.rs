//! The surfaces compared, and together on one lock.

mod commands;
mod play;
mod same;
mod together;
