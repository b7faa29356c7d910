//! What holds for all files of the repository, as tests.

mod dependencies;
mod public_api;
mod readme;
mod structure;
mod tested;
