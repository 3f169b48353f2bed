//! Certificates for tests of TLS. Tests create the certificates themselves, so that a repository contains no
//! certificates that expire. Enabled by the feature `testing-tls`.
//!
//! ```
//! use tremor_pdk::testing::certificates::Authority;
//!
//! let authority = Authority::new();
//! let files = authority.issue(&["localhost"]).files();
//! assert!(files.certificate().ends_with("certificate.pem"));
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;

/// Number of CAs that were created. Each CA needs a different name, because clients identify a CA by its name.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A CA that is created for a test.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A property that makes a certificate invalid or unusual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// The certificate expired in the year 2001.
    Expired,
    /// The certificate is valid from the year 2900.
    NotValidYet,
    /// The certificate is that of a CA.
    Authority,
}

/// A certificate and its private key, in PEM format.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate in PEM format.
    pub certificate: String,
    /// The private key of the certificate, in PEM format.
    pub key: String,
}

/// A temporary folder with a certificate, its key and further certificates. Dropping the value removes the folder.
#[derive(Debug)]
pub struct Files(TempDir);

impl Authority {
    /// Creates a CA that no peer trusts yet.
    ///
    /// # Panics
    /// Panics if no random numbers are available, like all functions that create certificates.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("authority {number} of process {}", std::process::id());
        let mut params = params(&[], &name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Returns the certificate of the CA in PEM format.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for the given names or IP addresses.
    pub fn issue(&self, names: &[&str]) -> Identity {
        Identity::of(|key| params(names, "a peer of tests").signed_by(key, &self.issuer))
    }

    /// Issues a certificate with an oddity.
    pub fn issue_odd(&self, names: &[&str], oddity: Oddity) -> Identity {
        Identity::of(|key| odd(names, &[oddity]).signed_by(key, &self.issuer))
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Identity {
    /// Creates a self-signed certificate.
    ///
    /// # Panics
    /// Panics in the cases of [`Authority::new`].
    pub fn self_signed(names: &[&str]) -> Self {
        Self::of(|key| params(names, "a peer of tests").self_signed(key))
    }

    /// Creates a self-signed certificate with oddities.
    ///
    /// # Panics
    /// Panics in the cases of [`Authority::new`].
    pub fn self_signed_odd(names: &[&str], oddities: &[Oddity]) -> Self {
        Self::of(|key| odd(names, oddities).self_signed(key))
    }

    /// Creates a key, and calls `make` to create the certificate for the key.
    fn of(make: impl FnOnce(&KeyPair) -> Result<Certificate, rcgen::Error>) -> Self {
        let key = KeyPair::generate().expect("a key");
        let certificate = make(&key).expect("a certificate").pem();
        Self { certificate, key: key.serialize_pem() }
    }

    /// Writes the certificate and the key to files in a new folder.
    ///
    /// # Panics
    /// Panics if the files cannot be written.
    pub fn files(&self) -> Files {
        let files = Files(tempfile::tempdir().expect("a folder"));
        files.replace(self);
        files
    }
}

impl Files {
    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of the certificate, `certificate.pem`.
    pub fn certificate(&self) -> PathBuf {
        self.folder().join("certificate.pem")
    }

    /// Returns the path of the key, `key.pem`.
    pub fn key(&self) -> PathBuf {
        self.folder().join("key.pem")
    }

    /// Writes further certificates to the file `NAME.pem`, and returns its path.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn add(&self, name: &str, pem: &str) -> PathBuf {
        let path = self.folder().join(format!("{name}.pem"));
        fs::write(&path, pem).expect("a file");
        path
    }

    /// Replaces the certificate and its key, as tools for renewal do: writes a new file and renames it to the old name.
    ///
    /// # Panics
    /// Panics if the files cannot be written.
    pub fn replace(&self, identity: &Identity) {
        for (path, pem) in
            [(self.certificate(), &identity.certificate), (self.key(), &identity.key)]
        {
            let new = path.with_extension("new");
            fs::write(&new, pem).expect("a file");
            fs::rename(new, path).expect("a file");
        }
    }
}

fn params(names: &[&str], common_name: &str) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("the names are valid");
    params.distinguished_name.push(DnType::CommonName, common_name);
    (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(2999, 1, 1));
    params
}

fn odd(names: &[&str], oddities: &[Oddity]) -> CertificateParams {
    let mut params = params(names, "an odd peer of tests");
    for oddity in oddities {
        match oddity {
            Oddity::Expired => params.not_after = date_time_ymd(2001, 1, 1),
            Oddity::NotValidYet => params.not_before = date_time_ymd(2900, 1, 1),
            Oddity::Authority => params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
        }
    }
    params
}
