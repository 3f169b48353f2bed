//! The error type of plugins, with kinds and policies.

use std::{fmt, time::Duration};

use abi_stable::{
    StableAbi,
    std_types::{RString, RVec},
};

/// The kind of an error, which describes what happened. The kind determines the [policy](ErrorKind::policy) of the
/// error, unless the error sets a different policy. An open set; an unknown kind is treated as [`ErrorKind::INTERNAL`].
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, StableAbi)]
pub struct ErrorKind(pub u16);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $policy:ident;)*) => {
        impl ErrorKind {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Returns the default policy of errors of this kind.
            pub const fn policy(self) -> ErrorPolicy {
                match self {
                    $(Self::$name => ErrorPolicy::$policy,)*
                    _ => ErrorPolicy::RESTART,
                }
            }

            /// Returns the name of the kind that logs and metrics use.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    _ => "unknown",
                }
            }
        }
    };
}

kinds! {
    /// A bug in the plugin or its environment.
    INTERNAL = 0, "internal", RESTART;
    /// The configuration is invalid, or names a file that does not exist or cannot be used.
    CONFIGURATION = 1, "configuration", GIVE_UP;
    /// A connection to the peer cannot be established.
    CONNECTION_REFUSED = 2, "connection refused", RECONNECT;
    /// An established connection broke.
    CONNECTION_LOST = 3, "connection lost", RECONNECT;
    /// The peer rejected the credentials, or denied access.
    AUTHENTICATION = 4, "authentication", GIVE_UP;
    /// The data is invalid.
    BAD_DATA = 5, "bad data", DEAD_LETTER;
    /// An operation exceeded its time limit.
    TIMEOUT = 6, "timeout", RETRY;
    /// A disk, a quota or a peer's buffer is full.
    FULL = 7, "full", RETRY;
    /// The plugin does not support the requested operation.
    UNSUPPORTED = 8, "unsupported", GIVE_UP;
    /// The plugin's code panicked.
    PANICKED = 9, "panicked", RESTART;
    /// The system has no file descriptors, memory or threads available at the moment.
    SHORTAGE = 10, "shortage", RETRY;
    /// The component did not attempt the operation, because the peer asked for a delay that has not passed yet.
    DEFERRED = 11, "deferred", RETRY;
}

impl ErrorKind {
    /// Returns the kind of an I/O error if the error is a temporary shortage, which other processes or components may
    /// have caused: [`FULL`](Self::FULL) for a full disk or quota, [`SHORTAGE`](Self::SHORTAGE) for a lack of file
    /// descriptors, memory, buffers or threads. Returns `None` for every other I/O error.
    pub fn of_shortage(error: &std::io::Error) -> Option<Self> {
        use std::io::ErrorKind as Io;
        /// `ENFILE` and `EMFILE` on every Unix; `std` has no kind for them.
        const DESCRIPTORS: [i32; 2] = [23, 24];
        /// `ENOBUFS`; `std` has no kind for it.
        const BUFFERS: i32 = if cfg!(target_os = "linux") { 105 } else { 55 };
        match error.kind() {
            Io::StorageFull | Io::QuotaExceeded => Some(Self::FULL),
            // Creating a thread or a process fails with `EAGAIN`, which maps to `WouldBlock`.
            Io::OutOfMemory | Io::WouldBlock => Some(Self::SHORTAGE),
            _ => error
                .raw_os_error()
                .filter(|code| DESCRIPTORS.contains(code) || *code == BUFFERS)
                .map(|_| Self::SHORTAGE),
        }
    }

    /// Returns `true` for [`FULL`](Self::FULL) and [`SHORTAGE`](Self::SHORTAGE): the same operation succeeds once the
    /// resource is available again.
    pub const fn is_shortage(self) -> bool {
        matches!(self, Self::FULL | Self::SHORTAGE)
    }
}

/// The reaction of the runtime to an error. An open set; an unknown policy is treated as [`ErrorPolicy::RESTART`].
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, StableAbi)]
pub struct ErrorPolicy(pub u8);

impl ErrorPolicy {
    /// The cause may be temporary: the operation is retried with backoff, as often as the flow configures.
    pub const RETRY: Self = Self(0);
    /// The connection is unusable: the connector reconnects with backoff, and delivers the undelivered events
    /// afterwards.
    pub const RECONNECT: Self = Self(1);
    /// The data is invalid: the events leave by `err`, and the component continues.
    pub const DEAD_LETTER: Self = Self(2);
    /// The instance failed: the component restarts, with a new instance if the failure requires one.
    pub const RESTART: Self = Self(3);
    /// Only a person can remove the cause: the flow fails.
    pub const GIVE_UP: Self = Self(4);

    /// Returns the name of the policy that logs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RETRY => "retry",
            Self::RECONNECT => "reconnect",
            Self::DEAD_LETTER => "dead letter",
            Self::RESTART => "restart",
            Self::GIVE_UP => "give up",
            _ => "unknown",
        }
    }
}

impl fmt::Debug for ErrorPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.as_str(), self.0)
    }
}

impl fmt::Debug for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.as_str(), self.0)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of a plugin or of the host: a kind, a message, the causes, and the reaction of the runtime (a policy and a
/// minimum delay).
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, StableAbi)]
pub struct PluginError {
    kind: ErrorKind,
    policy: ErrorPolicy,
    /// Minimum delay before a retry, in ms; zero for no minimum besides the backoff.
    delay: u32,
    message: RString,
    causes: RVec<RString>,
}

macro_rules! constructors {
    ($($name:ident => $kind:ident;)*) => {
        $(
            #[doc = concat!("Creates an error of kind [`ErrorKind::", stringify!($kind), "`].")]
            pub fn $name(message: impl fmt::Display) -> Self {
                Self::new(ErrorKind::$kind, message)
            }
        )*
    };
}

impl PluginError {
    /// Creates an error without a cause, with the policy of `kind`.
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        let (policy, message) = (kind.policy(), message.to_string().into());
        Self { kind, policy, delay: 0, message, causes: RVec::new() }
    }

    constructors! {
        internal => INTERNAL;
        configuration => CONFIGURATION;
        connection_refused => CONNECTION_REFUSED;
        connection_lost => CONNECTION_LOST;
        authentication => AUTHENTICATION;
        bad_data => BAD_DATA;
        timeout => TIMEOUT;
        full => FULL;
        unsupported => UNSUPPORTED;
        panicked => PANICKED;
        shortage => SHORTAGE;
        deferred => DEFERRED;
    }

    /// Appends `cause`, and its own chain of sources, to the causes.
    #[must_use]
    pub fn caused_by(mut self, cause: &(dyn std::error::Error + 'static)) -> Self {
        let mut next = Some(cause);
        while let Some(cause) = next {
            self.causes.push(cause.to_string().into());
            next = cause.source();
        }
        self
    }

    /// Prefixes the message with `doing`, which names the operation that failed.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message).into();
        self
    }

    /// Replaces the policy. By default, the kind determines the policy.
    ///
    /// ```
    /// # use tremor_abi::error::{ErrorPolicy, PluginError as Error};
    /// // A peer that is being upgraded rejects all credentials for a while.
    /// let error = Error::authentication("401").with_policy(ErrorPolicy::RETRY);
    /// assert!(!error.is_final());
    /// ```
    #[must_use]
    pub fn with_policy(mut self, policy: ErrorPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the minimum delay before a retry, as requested by the peer (such as `Retry-After` in HTTP). The delay is
    /// stored in ms and is at most 49 days. The policy becomes [`ErrorPolicy::RETRY`], unless it is
    /// [`ErrorPolicy::RECONNECT`].
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        if self.policy != ErrorPolicy::RECONNECT {
            self.policy = ErrorPolicy::RETRY;
        }
        self.delay = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
        self
    }

    /// Returns the reaction of the runtime to the error.
    pub fn policy(&self) -> ErrorPolicy {
        self.policy
    }

    /// Returns the minimum delay before a retry.
    pub fn delay(&self) -> Duration {
        Duration::from_millis(self.delay.into())
    }

    /// Returns whether the policy is [`ErrorPolicy::GIVE_UP`], so that nothing is retried.
    pub fn is_final(&self) -> bool {
        self.policy == ErrorPolicy::GIVE_UP
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the message, without the causes.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the messages of the causes, beginning with the direct cause.
    pub fn causes(&self) -> impl Iterator<Item = &str> {
        self.causes.iter().map(RString::as_str)
    }
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.causes.iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl std::error::Error for PluginError {}

impl From<std::io::Error> for PluginError {
    /// Converts an I/O error; the kind follows from the I/O error's kind, and the message is its text.
    ///
    /// An invalid path is reported as a configuration error, because most paths come from the configuration. A
    /// component that waits for a file or a socket to appear returns
    /// [`connection_refused`](PluginError::connection_refused) instead.
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::ConnectionRefused
            | Io::AddrNotAvailable
            | Io::HostUnreachable
            | Io::NetworkUnreachable
            | Io::NetworkDown => ErrorKind::CONNECTION_REFUSED,
            Io::ConnectionReset
            | Io::ConnectionAborted
            | Io::NotConnected
            | Io::BrokenPipe
            | Io::UnexpectedEof
            | Io::StaleNetworkFileHandle => ErrorKind::CONNECTION_LOST,
            Io::NotFound
            | Io::AlreadyExists
            | Io::NotADirectory
            | Io::IsADirectory
            | Io::InvalidFilename
            | Io::InvalidInput
            | Io::ReadOnlyFilesystem => ErrorKind::CONFIGURATION,
            Io::PermissionDenied => ErrorKind::AUTHENTICATION,
            Io::InvalidData => ErrorKind::BAD_DATA,
            Io::TimedOut => ErrorKind::TIMEOUT,
            Io::FileTooLarge => ErrorKind::FULL,
            Io::Unsupported => ErrorKind::UNSUPPORTED,
            _ => ErrorKind::of_shortage(&error).unwrap_or(ErrorKind::INTERNAL),
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::{ErrorKind, ErrorPolicy, PluginError};

    #[test]
    fn error_text_runs_from_operation_to_last_cause() {
        let cause = io::Error::other("no space left");
        let error = PluginError::full("cannot write").caused_by(&cause).context("file `out`");
        assert_eq!(error.to_string(), "file `out`: cannot write: no space left");
        assert_eq!(error.kind(), ErrorKind::FULL);
    }

    #[test]
    fn io_error_kind_is_retried_only_if_retry_may_help() {
        let kind = |kind: io::ErrorKind| PluginError::from(io::Error::from(kind)).kind();
        for wrong_path in [io::ErrorKind::NotFound, io::ErrorKind::IsADirectory] {
            assert_eq!(kind(wrong_path), ErrorKind::CONFIGURATION);
        }
        assert_eq!(kind(io::ErrorKind::NetworkUnreachable), ErrorKind::CONNECTION_REFUSED);
        assert_eq!(kind(io::ErrorKind::BrokenPipe), ErrorKind::CONNECTION_LOST);
        assert_eq!(kind(io::ErrorKind::StorageFull), ErrorKind::FULL);
        assert_eq!(kind(io::ErrorKind::Other), ErrorKind::INTERNAL);
    }

    #[test]
    fn shortage_of_system_resources_is_retried() {
        let buffers = if cfg!(target_os = "linux") { 105 } else { 55 };
        for code in [23, 24, buffers, 12] {
            let error = PluginError::from(io::Error::from_raw_os_error(code));
            assert_eq!(error.kind(), ErrorKind::SHORTAGE, "{error}");
            assert_eq!(error.policy(), ErrorPolicy::RETRY, "{error}");
        }
        assert_eq!(
            PluginError::from(io::Error::from(io::ErrorKind::WouldBlock)).kind(),
            ErrorKind::SHORTAGE
        );
        assert!(ErrorKind::of_shortage(&io::ErrorKind::NotFound.into()).is_none());
    }

    #[test]
    fn policy_follows_from_kind_unless_set() {
        let error = PluginError::authentication("401");
        assert!(error.is_final());
        let error = error.retry_after(Duration::from_millis(1_500));
        assert_eq!(error.kind(), ErrorKind::AUTHENTICATION);
        assert_eq!(error.policy(), ErrorPolicy::RETRY);
        assert_eq!(error.delay(), Duration::from_millis(1_500));
        let lost = PluginError::connection_lost("reset").retry_after(Duration::from_secs(1 << 40));
        assert_eq!(lost.policy(), ErrorPolicy::RECONNECT);
        assert_eq!(lost.delay(), Duration::from_millis(u32::MAX.into()));
        assert_eq!(ErrorKind(9_999).policy(), ErrorPolicy::RESTART);
    }

    #[test]
    fn unknown_kind_has_a_name() {
        assert_eq!(ErrorKind(9_999).to_string(), "unknown");
    }
}
