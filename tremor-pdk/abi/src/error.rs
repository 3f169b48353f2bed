//! What a plugin says when something goes wrong.

use std::fmt;

use abi_stable::{
    StableAbi,
    std_types::{RString, RVec},
};

/// What kind of thing went wrong: what the runtime decides by. An open set; a kind that this
/// version does not know is treated as [`ErrorKind::INTERNAL`].
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, StableAbi)]
pub struct ErrorKind(pub u16);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl ErrorKind {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

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
    /// A bug in the plugin or its environment. The component fails and is restarted.
    INTERNAL = 0, "internal";
    /// The configuration cannot work. The flow fails; nothing is retried.
    CONFIGURATION = 1, "configuration";
    /// The peer is not there or does not answer. The connector retries with backoff.
    CONNECTION_REFUSED = 2, "connection refused";
    /// An established connection broke. The connector reconnects.
    CONNECTION_LOST = 3, "connection lost";
    /// The peer is there and does not let us in. The flow fails.
    AUTHENTICATION = 4, "authentication";
    /// The data is not what it should be. It goes to the dead letters; the component goes on.
    BAD_DATA = 5, "bad data";
    /// Something took longer than it may. It is retried.
    TIMEOUT = 6, "timeout";
    /// A disk, a quota or a peer's buffer is full. It is retried.
    FULL = 7, "full";
    /// The plugin does not do what was asked of it. The flow fails.
    UNSUPPORTED = 8, "unsupported";
    /// The plugin's code panicked. The component fails and is restarted.
    PANICKED = 9, "panicked";
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

/// An error that crosses the boundary: a kind to act on, a message for people, and what caused it.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, StableAbi)]
pub struct PluginError {
    kind: ErrorKind,
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
        Self { kind, message: message.to_string().into(), causes: RVec::new() }
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
            Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => ErrorKind::FULL,
            Io::Unsupported => ErrorKind::UNSUPPORTED,
            _ => ErrorKind::INTERNAL,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{ErrorKind, PluginError};

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
    fn an_unknown_kind_has_a_name_all_the_same() {
        assert_eq!(ErrorKind(9_999).to_string(), "unknown");
    }
}
