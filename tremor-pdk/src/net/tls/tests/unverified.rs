//! Tests of servers that are verified by a fingerprint, or not at all.

use super::{Scene, server};
use crate::{
    LogLevel, Result,
    net::tls::{MinVersion, Tls, certificates::chain, unverified::sha256},
    testing::certificates::{Identity, Oddity},
};

/// Connects a client with these keys to a server with this certificate, in both versions of TLS.
fn connect(scene: &Scene, identity: &Identity, keys: &Tls) -> Result<()> {
    let files = identity.files();
    for min_version in [MinVersion::Tls12, MinVersion::Tls13] {
        let client = Tls { min_version, ..keys.clone() };
        let connector = scene.connector(&client);
        scene.meet(&scene.acceptor(&server(&files)), &connector).1?;
    }
    Ok(())
}

/// Returns the number of warnings that a server is not verified.
fn warnings(scene: &Scene) -> usize {
    let text = "the certificate of `localhost:6514` is not verified";
    let is_one =
        |(level, line): &&(LogLevel, String)| *level == LogLevel::WARN && line.contains(text);
    scene.test.log().iter().filter(is_one).count()
}

fn fingerprint(identity: &Identity) -> String {
    let certificate = chain(&identity.files().certificate()).unwrap().remove(0);
    sha256(&certificate).iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

/// Certificates that no CA has signed, for another name, or with wrong dates.
fn odd_identities() -> [Identity; 3] {
    [
        Identity::self_signed(&["a.example"]),
        Identity::self_signed_odd(&["localhost"], &[Oddity::Expired]),
        Identity::self_signed_odd(&[], &[Oddity::Authority, Oddity::NotValidYet]),
    ]
}

#[test]
fn fingerprint_replaces_other_checks() {
    let scene = Scene::new();
    for identity in odd_identities() {
        let other = fingerprint(&Identity::self_signed(&["localhost"]));
        let keys = |all: &[&String]| Tls {
            fingerprints: all.iter().map(|it| (*it).clone()).collect(),
            ..Tls::default()
        };
        let own = fingerprint(&identity);
        connect(&scene, &identity, &keys(&[&other, &own])).unwrap();
        let error = connect(&scene, &identity, &keys(&[&other])).unwrap_err().to_string();
        let shown = own.replace(':', "").to_lowercase();
        assert!(error.contains(&format!("has the fingerprint {shown}")), "{error}");
    }
    assert_eq!(warnings(&scene), 0);
}

#[test]
fn skipped_verification_is_logged_once() {
    let scene = Scene::new();
    let keys = Tls { insecure_skip_verify: true, ..Tls::default() };
    for identity in odd_identities() {
        connect(&scene, &identity, &keys).unwrap();
    }
    // Each connector logs a single warning, however often it connects.
    let connector = scene.connector(&keys);
    let files = Identity::self_signed(&["localhost"]).files();
    let before = warnings(&scene);
    for _ in 0..3 {
        scene.meet(&scene.acceptor(&server(&files)), &connector).1.unwrap();
    }
    assert_eq!((before, warnings(&scene)), (6, 7));
}
