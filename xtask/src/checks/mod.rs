//! What holds for all files of the repository, as tests.

mod readme;
mod structure;
mod tested;
