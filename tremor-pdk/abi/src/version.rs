//! The version of the ABI, which is the version of this package.

use std::fmt;

use abi_stable::StableAbi;

/// A major and a minor number. A host loads a plugin if the major numbers are equal and the plugin's minor number is
/// not larger than the host's. A new minor version only adds: fields and methods after the last prefix field, types,
/// and numbers of open sets.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, StableAbi)]
pub struct AbiVersion {
    /// Number that increases when a layout, or the meaning of a field or method, changes.
    pub major: u16,
    /// Number that increases when types, fields, methods or numbers of open sets are added.
    pub minor: u16,
}

impl AbiVersion {
    /// The ABI version of this crate.
    pub const CURRENT: Self = Self {
        major: decimal(env!("CARGO_PKG_VERSION_MAJOR")),
        minor: decimal(env!("CARGO_PKG_VERSION_MINOR")),
    };

    /// Returns whether a host of this version can load a plugin of version `plugin`.
    pub const fn loads(self, plugin: Self) -> bool {
        self.major == plugin.major && plugin.minor <= self.minor
    }
}

impl fmt::Display for AbiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Parses a version number of Cargo, which is decimal text; any other text fails the build.
const fn decimal(text: &str) -> u16 {
    let digits = text.as_bytes();
    let (mut value, mut i) = (0u16, 0);
    while i < digits.len() {
        assert!(digits[i].is_ascii_digit());
        value = value * 10 + (digits[i] - b'0') as u16;
        i += 1;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::AbiVersion;

    #[test]
    fn host_loads_equal_major_up_to_its_minor() {
        let host = AbiVersion { major: 2, minor: 3 };
        let loads = |major, minor| host.loads(AbiVersion { major, minor });
        assert!(loads(2, 0) && loads(2, 3));
        assert!(!loads(2, 4) && !loads(1, 3) && !loads(3, 0));
    }
}
