//! What a benchmark has to say of the build that it ran: the compiler, the target, the profile.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    tell("RUSTC", version.unwrap_or_default().trim());
    for (name, variable) in [("TARGET", "TARGET"), ("PROFILE", "PROFILE"), ("OPT", "OPT_LEVEL")] {
        tell(name, &env::var(variable).unwrap_or_default());
    }
    // Cargo separates flags by a character that none of them has.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    tell("RUSTFLAGS", &flags.replace('\x1f', " "));
}

fn tell(name: &str, value: &str) {
    println!("cargo::rustc-env=TREMOR_BUILD_{name}={value}");
}
