//! Tests on a simulated disk, and on that of the system.

mod ahead;
mod behaviour;
mod crash;
mod disk;
mod faults;
mod flips;
mod forged;
mod inode;
mod inspect;
mod mend;
mod model;
