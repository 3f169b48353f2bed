//! Certificates for a broker and a client, issued with `openssl` by a new CA.

use std::path::{Path, PathBuf};
use std::{fs, process::Command};

use anyhow::Result;

use crate::project::{empty_folder, output};

/// Creates the certificates in a folder, and returns the files of the client by the keys of `tls` in a flow file.
pub(super) fn make(folder: &Path) -> Result<[(&'static str, PathBuf); 3]> {
    let file = |name: &str| folder.join(name);
    let files = [
        ("ca_file", file("ca.pem")),
        ("cert_file", file("client.pem")),
        ("key_file", file("client.key")),
    ];
    if folder.is_dir() {
        return Ok(files);
    }
    // The folder is renamed once it is complete, so that it is never incomplete.
    let part = folder.with_extension("part");
    empty_folder(&part)?;
    // `openssl` prints the progress of generating keys, so its output is not shown.
    let openssl = |arguments: String| {
        output(Command::new("openssl").args(arguments.split_whitespace()).current_dir(&part))
    };
    let key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365";
    openssl(format!("{key} -subj /CN=broker-ca -keyout ca.key -out ca.pem"))?;
    let names = "-addext subjectAltName=DNS:localhost,IP:127.0.0.1";
    let client = "-addext extendedKeyUsage=clientAuth";
    for (name, extension) in [("broker", names), ("client", client)] {
        openssl(format!(
            "{key} -CA ca.pem -CAkey ca.key -subj /CN={name} -addext basicConstraints=critical,CA:FALSE {extension} \
             -keyout {name}.key -out {name}.pem"
        ))?;
    }
    // Kafka requires the key and the certificates in one file.
    let mut whole = Vec::new();
    for file in ["broker.key", "broker.pem", "ca.pem"] {
        whole.extend(fs::read(part.join(file))?);
    }
    fs::write(part.join("broker.pem"), whole)?;
    fs::rename(&part, folder)?;
    Ok(files)
}
