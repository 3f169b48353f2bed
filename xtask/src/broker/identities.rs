//! Certificates for a broker and a client, of a CA of their own, made with `openssl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::project::run;
use crate::running::empty_folder;

/// Makes them in a folder; the keys of `tls` with the files of a client.
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
    // Complete, or not there.
    let part = folder.with_extension("part");
    empty_folder(&part)?;
    openssl(
        &part,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
        -subj /CN=broker-ca -keyout ca.key -out ca.pem",
    )?;
    let names = "-addext subjectAltName=DNS:localhost,IP:127.0.0.1";
    for (name, extension) in [("broker", names), ("client", "-addext extendedKeyUsage=clientAuth")]
    {
        openssl(
            &part,
            &format!(
                "req -x509 -CA ca.pem -CAkey ca.key -newkey ec -pkeyopt \
            ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN={name} -addext basicConstraints=critical,CA:FALSE \
            {extension} -keyout {name}.key -out {name}.pem"
            ),
        )?;
    }
    // Kafka wants the key and the certificates in one file.
    let whole = ["broker.key", "broker.pem", "ca.pem"].map(|it| fs::read(part.join(it)));
    let whole: std::io::Result<Vec<_>> = whole.into_iter().collect();
    fs::write(part.join("broker.pem"), whole?.concat())?;
    fs::rename(&part, folder)?;
    Ok(files)
}

fn openssl(folder: &Path, arguments: &str) -> Result<()> {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(folder);
    // It shows how it searches for keys.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    run(command)
}
