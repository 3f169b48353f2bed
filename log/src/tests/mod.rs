//! Tests on a simulated disk, and on that of the system.

mod crash;
mod disk;
mod model;
