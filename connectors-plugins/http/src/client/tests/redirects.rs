//! Tests of redirects of polled URLs.

use tremor_pdk::{ErrorKind, EventRef, Pull, testing::TestHost};

use super::{HttpClient, Reply, client, peer, status};

fn redirect(code: u16, location: &str) -> Reply {
    status(code, &format!("Location: {location}\r\n"), "moved")
}

/// Polls once. Returns the event or the error, and the first line and the headers of each request.
fn poll(replies: Vec<Reply>, redirects: u8) -> (Result<Vec<u8>, String>, Vec<String>) {
    let peer = peer(replies);
    let host = TestHost::new();
    let keys = format!(
        r#", "interval": "30s", "redirects": {redirects}, "auth": {{ "bearer": "token" }}"#
    );
    let mut client = client(&host, &peer.address, &keys);
    let polled = client.pull().map_err(|error| error.to_string()).map(|(pull, batch)| {
        assert_eq!(pull, Pull::Events);
        batch.first().and_then(EventRef::raw).unwrap().to_vec()
    });
    (polled, peer.requests.join().unwrap().into_iter().map(|(_, head, _)| head).collect())
}

#[test]
fn redirects_within_the_origin_are_followed() {
    for code in [301, 302, 303, 307, 308] {
        let replies = vec![redirect(code, "/a/b?x"), redirect(code, "c"), status(200, "", "one")];
        let (polled, heads) = poll(replies, 2);
        assert_eq!(polled, Ok(b"one".to_vec()), "{code}");
        for (head, target) in heads.iter().zip(["/in?key=secret", "/a/b?x", "/a/c"]) {
            assert!(head.starts_with(&format!("GET {target} HTTP/1.1\r\n")), "{head}");
            assert!(head.contains("authorization: Bearer token"), "{head}");
        }
    }
}

#[test]
fn redirect_that_is_not_followed_is_explained() {
    for (redirects, location, part) in [
        (0, "/a", "`redirects` to the number of redirects to follow"),
        (1, "/a", "has already followed `redirects: 1`"),
        (9, "http://127.0.0.1:9/a?secret", "another scheme, host or port are not followed"),
        (9, "//other.example/a", "another scheme, host or port are not followed"),
        (9, "https://127.0.0.1/a", "another scheme, host or port are not followed"),
        (9, "ftp://a/", "is not a URL that can be followed"),
    ] {
        let replies = vec![redirect(302, location); if redirects == 1 { 2 } else { 1 }];
        let error = poll(replies, redirects).0.unwrap_err();
        let shown = location.split('?').next().unwrap();
        for part in [part, &format!("answered with 302 Found to `{shown}`")] {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn other_statuses_are_not_redirects() {
    let replies = vec![status(300, "Location: /a\r\n", ""), status(200, "Location: /a\r\n", "one")];
    let peer = peer(replies);
    let host = TestHost::new();
    let mut client = client(&host, &peer.address, r#", "interval": "30s", "redirects": 5"#);
    assert!(client.pull().is_err());
    host.advance(std::time::Duration::from_secs(30));
    assert_eq!(client.pull().unwrap().0, Pull::Events);
    assert_eq!(peer.requests.join().unwrap().len(), 2);
}

#[test]
fn redirects_are_for_get_requests_of_a_source() {
    for (keys, part) in [
        (r#""redirects": 1"#, "set `interval`"),
        (r#""redirects": 1, "interval": "1s", "method": "POST""#, "remove `method`"),
        (r#""redirects": 21, "interval": "1s""#, "from 0 to 20"),
    ] {
        let config = format!(r#"{{ "url": "http://a/", {keys} }}"#);
        let error = TestHost::new().connect::<HttpClient>(&config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains(part), "{error}");
    }
}
