//! What a plugin says when something goes wrong.

use std::{fmt, time::Duration};

use abi_stable::{
    StableAbi,
    std_types::{RString, RVec},
};

/// What kind of thing went wrong. Its [policy](ErrorKind::policy) says what is done about it, unless the
/// error has another. An open set; a kind that this version does not know is treated as
/// [`ErrorKind::INTERNAL`].
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, StableAbi)]
pub struct ErrorKind(pub u16);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $policy:ident;)*) => {
        impl ErrorKind {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// What is done about an error of this kind, unless it has a policy of its own.
            pub const fn policy(self) -> ErrorPolicy {
                match self {
                    $(Self::$name => ErrorPolicy::$policy,)*
                    _ => ErrorPolicy::RESTART,
                }
            }

            /// The kind in the words of logs and metrics.
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
    /// The configuration cannot work.
    CONFIGURATION = 1, "configuration", GIVE_UP;
    /// The peer is not there or does not answer.
    CONNECTION_REFUSED = 2, "connection refused", RECONNECT;
    /// An established connection broke.
    CONNECTION_LOST = 3, "connection lost", RECONNECT;
    /// The peer is there and does not let us in.
    AUTHENTICATION = 4, "authentication", GIVE_UP;
    /// The data is not what it should be.
    BAD_DATA = 5, "bad data", DEAD_LETTER;
    /// Something took longer than it may.
    TIMEOUT = 6, "timeout", RETRY;
    /// A disk, a quota or a peer's buffer is full.
    FULL = 7, "full", RETRY;
    /// The plugin does not do what was asked of it.
    UNSUPPORTED = 8, "unsupported", GIVE_UP;
    /// The plugin's code panicked.
    PANICKED = 9, "panicked", RESTART;
    /// The system has no file descriptors, memory or threads left for now.
    SHORTAGE = 10, "shortage", RETRY;
    /// The component attempted nothing, because the peer named a time before which it accepts nothing.
    DEFERRED = 11, "deferred", RETRY;
}

impl ErrorKind {
    /// Returns the kind of an I/O error that another process or component may cause and end: [`FULL`](Self::FULL)
    /// for a full disk or quota, [`SHORTAGE`](Self::SHORTAGE) for a lack of file descriptors, memory, buffers or
    /// threads. Returns `None` for every other I/O error.
    pub fn of_shortage(error: &std::io::Error) -> Option<Self> {
        use std::io::ErrorKind as Io;
        /// `ENFILE` and `EMFILE` on every Unix, for which `std` has no kind.
        const DESCRIPTORS: [i32; 2] = [23, 24];
        /// `ENOBUFS`, for which `std` has no kind.
        const BUFFERS: i32 = if cfg!(target_os = "linux") { 105 } else { 55 };
        match error.kind() {
            Io::StorageFull | Io::QuotaExceeded => Some(Self::FULL),
            // Creating a thread or a process reports `EAGAIN`, which is this kind.
            Io::OutOfMemory | Io::WouldBlock => Some(Self::SHORTAGE),
            _ => error
                .raw_os_error()
                .filter(|code| DESCRIPTORS.contains(code) || *code == BUFFERS)
                .map(|_| Self::SHORTAGE),
        }
    }

    /// Returns `true` for [`FULL`](Self::FULL) and [`SHORTAGE`](Self::SHORTAGE): the component works again, unchanged,
    /// once others use less.
    pub const fn is_shortage(self) -> bool {
        matches!(self, Self::FULL | Self::SHORTAGE)
    }
}

/// What is to be done about an error. An open set; a policy that this version does not know is treated as
/// [`ErrorPolicy::RESTART`].
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, StableAbi)]
pub struct ErrorPolicy(pub u8);

impl ErrorPolicy {
    /// Time may mend it: the same is tried again, with backoff, as often as the flow says.
    pub const RETRY: Self = Self(0);
    /// The connection is of no more use: the connector connects again, with backoff, and what was not
    /// delivered is delivered then.
    pub const RECONNECT: Self = Self(1);
    /// The data is at fault: the events leave by `err`, and the component goes on.
    pub const DEAD_LETTER: Self = Self(2);
    /// The instance is at fault: it fails, and another is made where that may help.
    pub const RESTART: Self = Self(3);
    /// Nothing mends it without a person: the flow fails.
    pub const GIVE_UP: Self = Self(4);

    /// The policy in the words of logs.
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

/// An error that crosses the boundary: what happened (a kind, a message for people, and what caused it)
/// and what is to be done about it (a policy, and how long to wait first).
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, StableAbi)]
pub struct PluginError {
    kind: ErrorKind,
    policy: ErrorPolicy,
    /// In ms; zero where the backoff alone decides.
    delay: u32,
    message: RString,
    causes: RVec<RString>,
}

macro_rules! constructors {
    ($($name:ident => $kind:ident;)*) => {
        $(
            #[doc = concat!("An error of kind [`ErrorKind::", stringify!($kind), "`].")]
            pub fn $name(message: impl fmt::Display) -> Self {
                Self::new(ErrorKind::$kind, message)
            }
        )*
    };
}

impl PluginError {
    /// An error without a cause.
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

    /// The same error with `cause`, and everything that caused it, after it.
    #[must_use]
    pub fn caused_by(mut self, cause: &(dyn std::error::Error + 'static)) -> Self {
        let mut next = Some(cause);
        while let Some(cause) = next {
            self.causes.push(cause.to_string().into());
            next = cause.source();
        }
        self
    }

    /// The same error with what was being done in front of its message.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message).into();
        self
    }

    /// The same error with another policy than that of its kind.
    ///
    /// ```
    /// # use tremor_abi::error::{ErrorPolicy, PluginError as Error};
    /// // A peer that is being upgraded answers "not authenticated" for a while.
    /// let error = Error::authentication("401").with_policy(ErrorPolicy::RETRY);
    /// assert!(!error.is_final());
    /// ```
    #[must_use]
    pub fn with_policy(mut self, policy: ErrorPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The same error, to be tried again after this time at the earliest, as the peer has said (the
    /// `Retry-After` of HTTP): counted in ms, at most 49 days. The policy becomes
    /// [`ErrorPolicy::RETRY`], unless it is [`ErrorPolicy::RECONNECT`].
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        if self.policy != ErrorPolicy::RECONNECT {
            self.policy = ErrorPolicy::RETRY;
        }
        self.delay = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
        self
    }

    /// What is to be done about it.
    pub fn policy(&self) -> ErrorPolicy {
        self.policy
    }

    /// How long to wait at least before anything is tried again.
    pub fn delay(&self) -> Duration {
        Duration::from_millis(self.delay.into())
    }

    /// Whether nothing is to be tried again.
    pub fn is_final(&self) -> bool {
        self.policy == ErrorPolicy::GIVE_UP
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What went wrong, without the causes.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What caused it, the nearest first.
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
    /// The kind follows from the I/O error's; the message is its text.
    ///
    /// What is wrong with a path is the configuration's fault, for most paths come from there. Who
    /// waits for a file or a socket to appear answers with
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
    fn an_error_reads_from_what_was_done_down_to_the_last_cause() {
        let cause = io::Error::other("no space left");
        let error = PluginError::full("cannot write").caused_by(&cause).context("file `out`");
        assert_eq!(error.to_string(), "file `out`: cannot write: no space left");
        assert_eq!(error.kind(), ErrorKind::FULL);
    }

    #[test]
    fn an_io_error_is_retried_only_where_a_retry_may_help() {
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
    fn what_is_done_follows_from_what_happened_unless_it_is_said() {
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
    fn an_unknown_kind_has_a_name_all_the_same() {
        assert_eq!(ErrorKind(9_999).to_string(), "unknown");
    }
}
