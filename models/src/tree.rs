// The modules of one variant: protocols, and doubles for what they import.

pub use crate::doubles::{AnyBatch, Batch, ByteBuffer, NodeBuffer};

pub mod batch {
    pub use crate::doubles::{Batch, Event};
    pub mod storage;
}

pub mod document {
    pub use crate::doubles::Node;
}

pub mod driver {
    pub mod call;
    pub mod slot;
}

pub mod executor {
    pub use crate::doubles::executor::*;
    pub mod ready;
}

pub mod engine {
    pub use crate::doubles::{spin, tuning};

    pub mod account {
        pub mod token;
    }

    pub mod sync {
        pub mod gauge {
            pub use crate::doubles::{Gauge, Queue};
        }

        pub mod turn {
            pub use crate::doubles::Turn;
        }

        pub mod wakers;
        pub mod watch;
    }

    pub mod processors {
        pub use crate::doubles::{Busy, Processors};
    }

    pub mod queue {
        pub use crate::doubles::Bounds;
        pub mod mailbox;
    }

    pub mod route {
        pub mod in_order;
    }

    pub mod source {
        pub mod preprocessors {
            pub use crate::doubles::Next;
        }

        pub mod shared_intake;

        pub mod intake {
            pub use crate::doubles::Intake;
        }

        pub mod worker {
            pub use crate::doubles::Worker;
        }
    }
}

pub mod oneshot;

pub mod value {
    pub use crate::doubles::Value;
}
