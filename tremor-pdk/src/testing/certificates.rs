//! Certificates for tests of TLS, made where they are needed: none that lies in a repository expires. Behind
//! the feature `testing-tls`.
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

/// How many CAs there were: two of the same name would be taken for each other.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A CA, made for a test.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// What is odd about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// It expired in the year 2001.
    Expired,
    /// It is valid from the year 2900 on.
    NotValidYet,
    /// It is that of a CA.
    Authority,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// A certificate, its key and that of its CA, in a folder that goes with this.
#[derive(Debug)]
pub struct Files(TempDir);

impl Authority {
    /// A new one, which nobody knows.
    ///
    /// # Panics
    /// Where there is no randomness; so does all that makes certificates.
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

    /// Its certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for these names or IP addresses.
    pub fn issue(&self, names: &[&str]) -> Identity {
        Identity::of(|key| params(names, "a peer of tests").signed_by(key, &self.issuer))
    }

    /// A certificate with something odd about it.
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
    /// A certificate that only its owner has signed.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn self_signed(names: &[&str]) -> Self {
        Self::of(|key| params(names, "a peer of tests").self_signed(key))
    }

    /// Makes a certificate as [`Self::self_signed`] does, with these oddities.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn self_signed_odd(names: &[&str], oddities: &[Oddity]) -> Self {
        Self::of(|key| odd(names, oddities).self_signed(key))
    }

    /// A new key, with the certificate that is made for it.
    fn of(make: impl FnOnce(&KeyPair) -> Result<Certificate, rcgen::Error>) -> Self {
        let key = KeyPair::generate().expect("a key");
        let certificate = make(&key).expect("a certificate").pem();
        Self { certificate, key: key.serialize_pem() }
    }

    /// This in files of their own.
    ///
    /// # Panics
    /// Where they cannot be written.
    pub fn files(&self) -> Files {
        let files = Files(tempfile::tempdir().expect("a folder"));
        files.replace(self);
        files
    }
}

impl Files {
    /// The folder that they lie in.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// The file of the certificate, `certificate.pem`.
    pub fn certificate(&self) -> PathBuf {
        self.folder().join("certificate.pem")
    }

    /// The file of the key, `key.pem`.
    pub fn key(&self) -> PathBuf {
        self.folder().join("key.pem")
    }

    /// A file with more certificates, `NAME.pem`.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn add(&self, name: &str, pem: &str) -> PathBuf {
        let path = self.folder().join(format!("{name}.pem"));
        fs::write(&path, pem).expect("a file");
        path
    }

    /// Puts another certificate and its key in the place of these, as tools that renew them do: each file is
    /// another one.
    ///
    /// # Panics
    /// Where they cannot be written.
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
    let mut params = CertificateParams::new(names).expect("names");
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
