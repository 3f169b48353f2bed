//! Tests of peers whose own certificate is in `ca_file`.

use std::fs;

use super::{Scene, refuses, server};
use crate::{
    net::tls::{ClientAuth, MinVersion, Tls},
    testing::certificates::{Authority, Identity, Oddity},
};

#[test]
fn listed_server_certificate_needs_no_issuer() {
    let scene = Scene::new();
    let names = &["localhost"][..];
    for identity in [
        Identity::self_signed(names),
        Identity::self_signed_odd(names, &[Oddity::Authority]),
        Authority::new().issue(names),
        Authority::new().issue_odd(names, Oddity::Authority),
    ] {
        let files = identity.files();
        // The file lists other certificates as well.
        let ca = files.add("ca", &[scene.authority.pem(), &identity.certificate].concat());
        for min_version in [MinVersion::Tls12, MinVersion::Tls13] {
            let client = Tls { ca_file: Some(ca.clone()), min_version, ..Tls::default() };
            let (acceptor, connector) = (scene.acceptor(&server(&files)), scene.connector(&client));
            let (server, client) = scene.meet(&acceptor, &connector);
            server.unwrap();
            client.unwrap();
        }
    }
}

#[test]
fn listed_server_certificate_is_refused_by_date_and_name() {
    let scene = Scene::new();
    let names = &["localhost"][..];
    let listed = |identity: &Identity, what: &str| {
        refuses(&scene, identity, Some(&identity.certificate), what);
    };
    for oddities in [&[][..], &[Oddity::Authority]] {
        let odd =
            |names, more: &[Oddity]| Identity::self_signed_odd(names, &[oddities, more].concat());
        listed(&odd(names, &[Oddity::Expired]), "expired 9");
        listed(&odd(names, &[Oddity::NotValidYet]), "is only valid in 3");
        listed(&odd(&["a.example"], &[]), "is not for `localhost`, but for");
        listed(&odd(&[], &[]), "subjectAltName=DNS:localhost");
        // The listed certificate has the same name, but another key.
        let other = odd(names, &[]);
        refuses(&scene, &odd(names, &[]), Some(&other.certificate), "");
    }
}

#[test]
fn listed_client_certificate_needs_no_issuer() {
    let scene = Scene::new();
    let files = scene.authority.issue(&["localhost"]).files();
    let ca = files.add("ca", scene.authority.pem());
    let meet = |own: &Identity| {
        let own = own.files();
        let listed = files.add("clients", &fs::read_to_string(own.certificate()).unwrap());
        let auth = Some(ClientAuth::Required);
        let acceptor = Tls { ca_file: Some(listed), client_auth: auth, ..server(&files) };
        let connector = Tls { ca_file: Some(ca.clone()), ..server(&own) };
        scene.meet(&scene.acceptor(&acceptor), &scene.connector(&connector)).0
    };
    for oddities in [&[][..], &[Oddity::Authority]] {
        meet(&Identity::self_signed_odd(&["a client"], oddities)).unwrap();
        let expired =
            Identity::self_signed_odd(&["a client"], &[oddities, &[Oddity::Expired]].concat());
        let error = meet(&expired).unwrap_err().to_string();
        assert!(error.contains("its certificate expired"), "{error}");
    }
}
