//! Services that a flow provides to its components.

use std::sync::Arc;

use tremor_abi::host::LogLevel;
use tremor_pdk::Error;

use crate::{clock::Clock, dynamic::BoxFuture};

/// Services that a flow provides to a component that runs in it.
///
/// The methods may be called from any thread, possibly while another call into the component is in progress.
/// Implementations therefore must not block.
pub trait HostServices: Send + Sync + 'static {
    /// Requests a reconnect, because the component lost its connection.
    fn connection_lost(&self);
    /// Sets the problem `name` because of which the component works only in part. `None` means that the problem does not
    /// exist any more.
    fn set_problem(&self, name: &str, problem: Option<Error>) {
        let _ = (name, problem);
    }
    /// Requests the end of the run. If `graceful` is set, the flows are drained first.
    fn request_stop(&self, graceful: bool, reason: &str);
    /// Borrows `bytes` from the memory limit of the flow. Returns whether the component may use them.
    fn memory_take(&self, bytes: usize) -> bool {
        let _ = bytes;
        true
    }
    /// Returns `bytes` that were borrowed.
    fn memory_return(&self, bytes: usize) {
        let _ = bytes;
    }
    /// Adds `bytes` of events that the component has accepted to the memory of the flow.
    fn memory_charge(&self, bytes: usize) {
        let _ = bytes;
    }
    /// Subtracts `bytes` of events that were added by [`HostServices::memory_charge`].
    fn memory_discharge(&self, bytes: usize) {
        let _ = bytes;
    }

    /// Returns the clock of the component.
    fn clock(&self) -> Clock {
        Clock::default()
    }

    /// Returns whether the flow is draining.
    fn is_draining(&self) -> bool {
        false
    }
    /// Returns the name of the flow, for log lines.
    fn flow(&self) -> Option<Arc<str>> {
        None
    }
    /// Returns whether log lines of this level are written. `None` leaves the decision to the log of this process.
    fn log_enabled(&self, level: LogLevel) -> Option<bool> {
        let _ = level;
        None
    }
    /// Writes a log line of the component. `false` leaves the line to the log of this process.
    fn log(&self, level: LogLevel, message: &str) -> bool {
        let _ = (level, message);
        false
    }
    /// Wraps a task that the component starts. The host runs the returned future instead of `task`.
    fn task(&self, name: &str, task: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let _ = name;
        task
    }
}

/// Services without a flow. All requests are ignored.
impl HostServices for () {
    fn connection_lost(&self) {}

    fn request_stop(&self, _graceful: bool, _reason: &str) {}
}
