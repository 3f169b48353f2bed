//! Reading of certificates and keys from files.

use std::{fmt, fs, path::Path};

use rustls::{
    RootCertStore,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

use crate::{Error, ErrorKind, Result};

/// Reads a certificate and the certificates that lead to its CA.
pub(super) fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let pem = read(path)?;
    let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| unusable(path, &error))?;
    if chain.is_empty() {
        return Err(unusable(path, &"it contains no `BEGIN CERTIFICATE`"));
    }
    Ok(chain)
}

/// Reads a private key.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let pem = read(path)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        pem::Error::NoItemsFound if contains(&pem, b"BEGIN ENCRYPTED PRIVATE KEY") => unusable(
            path,
            &"the private key is encrypted; write it without a password with `openssl pkey`",
        ),
        pem::Error::NoItemsFound => unusable(path, &"it contains no `BEGIN PRIVATE KEY`"),
        error => unusable(path, &error),
    })
}

/// Reads the certificates of CAs. Returns them as a list and as a store of roots.
pub(super) fn authorities(path: &Path) -> Result<(Vec<CertificateDer<'static>>, RootCertStore)> {
    let mut roots = RootCertStore::empty();
    let listed = chain(path)?;
    for certificate in &listed {
        roots.add(certificate.clone()).map_err(|error| unusable(path, &error))?;
    }
    Ok((listed, roots))
}

/// Returns the CAs that the system trusts.
pub(super) fn system_authorities() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some of the certificates may be unusable; these are skipped.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(Error::configuration(format!(
            "the system has no certificates of CAs{why}; install the package `ca-certificates`, or \
             set `tls.ca_file` to the certificates to trust"
        )));
    }
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| {
        let kind = ErrorKind::of_shortage(&error).unwrap_or(ErrorKind::CONFIGURATION);
        let path = path.display();
        Error::new(kind, format_args!("cannot read `{path}`, which `tls` names: {error}"))
    })
}

/// Returns the error for a file that does not have the expected content.
pub(super) fn unusable(path: &Path, why: &dyn fmt::Display) -> Error {
    Error::configuration(format!("cannot use `{}`, which `tls` names: {why}", path.display()))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
