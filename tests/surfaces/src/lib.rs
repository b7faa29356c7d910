//! The crate, the npm package and the component, asked for the same things in the same words.
//!
//! A step is JSON, as `{"do": "acquire", "client": "a", "lock": "job", "as": "first"}`, and so is its outcome. What a surface calls a thing is
//! hidden here; what it does is not.

mod component;
mod native;
mod node;
mod step;

pub use component::Component;
pub use native::Native;
pub use node::Node;
pub use step::{Act, Kind, Step};

use serde_json::Value;

/// Who carries out steps.
#[allow(async_fn_in_trait, reason = "everything happens in one thread")]
pub trait Surface {
    /// What it is called.
    const NAME: &'static str;

    /// Carries out a step, and tells its outcome.
    async fn perform(&self, step: &Step<'_>) -> Value;
}
