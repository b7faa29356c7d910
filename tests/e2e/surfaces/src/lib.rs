//! The crate, the npm package, the component and the command line, called with the same steps.
//!
//! A step is JSON, such as `{"do": "acquire", "client": "a", "lock": "job", "as": "first"}`, and so is its outcome.
//! This hides that the surfaces have different names for the same thing. It doesn't hide different behaviour.

mod command_line;
mod component;
mod native;
mod node;
mod step;

pub use command_line::CommandLine;
pub use component::Component;
pub use native::Native;
pub use node::Node;
pub use step::{Act, Kind, Step};

use serde_json::Value;

/// A surface that carries out steps.
#[allow(async_fn_in_trait, reason = "everything happens in one thread")]
pub trait Surface {
    /// Its name.
    const NAME: &'static str;

    /// Carries out a step, and returns its outcome.
    async fn perform(&self, step: &Step<'_>) -> Value;
}
