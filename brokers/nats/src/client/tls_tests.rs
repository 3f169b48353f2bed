use tremor_pdk::{
    ErrorKind,
    testing::{
        TestHost,
        certificates::{Authority, Identity, Oddity},
    },
};

use crate::{producer::NatsProducer, testing::tls_server};

/// Connects to a server with this certificate under the name `host_name`. `listed` is the certificate in `ca_file`.
/// Returns the error, if any.
fn connect(identity: &Identity, host_name: &str, listed: &str) -> Option<tremor_pdk::Error> {
    let files = identity.files();
    let ca = files.add("ca", listed);
    let address = format!("{host_name}:{}", tls_server(&files));
    let config = format!(
        r#"{{ "servers": ["{address}"], "subject": "a", "tls": {{ "ca_file": "{}" }} }}"#,
        ca.display()
    );
    let host = TestHost::new();
    host.follow_real_time();
    match host.connect::<NatsProducer>(&config) {
        Ok(producer) => {
            producer.stop().unwrap();
            None
        }
        Err(error) => Some(error),
    }
}

#[test]
fn listed_server_certificate_needs_no_issuer() {
    let names = &["localhost"][..];
    for identity in [Identity::self_signed(names), Authority::new().issue(names)] {
        let error = connect(&identity, "localhost", &identity.certificate);
        assert!(error.is_none(), "{error:?}");
    }
}

#[test]
fn listed_server_certificate_is_rejected_by_date_and_name() {
    let names = &["localhost"][..];
    let expired = Identity::self_signed_odd(names, &[Oddity::Expired]);
    let other = Identity::self_signed(&["a.example"]);
    let unlisted = Identity::self_signed(names);
    for (identity, listed) in [
        (&expired, &expired.certificate),
        (&other, &other.certificate),
        (&unlisted, &other.certificate),
    ] {
        let error = connect(identity, "localhost", listed).expect("the certificate is rejected");
        assert_eq!(error.kind(), ErrorKind::AUTHENTICATION, "{error}");
        assert!(error.message().contains("check `tls`"), "{error}");
    }
}
