//! The resource that the lock protects. It refuses a write whose fence is smaller than one that it has seen.

use super::{RESOURCE, Who, World};
use crate::timeline::{Row, SpanId, Symbol, grouped};

#[derive(Default)]
pub(super) struct Resource {
    greatest: u64,
    writes: Vec<(Who, u64, bool)>,
    bar: Option<SpanId>,
}

impl Resource {
    pub(super) const fn greatest(&self) -> u64 {
        self.greatest
    }

    pub(super) fn writes(&self) -> &[(Who, u64, bool)] {
        &self.writes
    }
}

impl World {
    pub(super) fn write(&mut self, from: Who, fence: u64) {
        let (now, greatest) = (self.now, self.resource.greatest);
        let accepted = fence >= greatest;
        self.resource.writes.push((from, fence, accepted));
        if !accepted {
            self.mark(RESOURCE, Symbol::Refused, &format!("refuses {}: {}", from.name(), grouped(fence)));
            let (fence, greatest) = (grouped(fence), grouped(greatest));
            return self.say(format_args!(
                "The resource refuses {}'s write: its fence {fence} is smaller than {greatest}.",
                from.name()
            ));
        }
        if fence > greatest {
            self.resource.greatest = fence;
            if let Some(bar) = self.resource.bar {
                self.timeline.end(bar, now);
            }
            let label = format!("greatest fence: {}", grouped(fence));
            self.resource.bar = Some(self.timeline.begin((RESOURCE, Row::Condition), now, "queue", label));
        }
        self.mark(RESOURCE, Symbol::Accepted, &format!("accepts {}", from.name()));
        self.say(format_args!("The resource accepts {}'s write, with fence {}.", from.name(), grouped(fence)));
    }
}
