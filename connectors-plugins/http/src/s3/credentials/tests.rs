//! Tests of the sources of keys, with services of AWS that are played by a thread.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use tremor_pdk::{Descriptors, Result, testing::TestHost};

use super::{Provider, Variables};
use crate::{
    s3::config::Credentials,
    testing::{Reply, Server},
};

fn provider(host: &TestHost, config: &str, variables: Variables) -> Result<Provider> {
    host.follow_real_time();
    let credentials: Option<Credentials> = serde_json::from_str(config).unwrap();
    Provider::check(credentials.as_ref())?;
    let (host, descriptors) = (host.host(), Descriptors::new(&host.host())?);
    Provider::with_variables(credentials.as_ref(), "eu-central-1", &host, &descriptors, variables)
}

/// Returns the access key ID, the secret and the token.
fn keys(host: &TestHost, provider: &Provider) -> Result<(String, String, Option<String>)> {
    let keys = host.block_on(provider.keys())?;
    Ok((keys.access_key_id.clone(), keys.secret_access_key.clone(), keys.session_token.clone()))
}

fn none(_: &str) -> Option<String> {
    None
}

#[expect(clippy::needless_pass_by_value, reason = "each test passes a new result")]
fn expect(found: Result<(String, String, Option<String>)>, expected: (&str, &str, Option<&str>)) {
    let (id, secret, token) = expected;
    assert_eq!(found, Ok((id.to_owned(), secret.to_owned(), token.map(str::to_owned))));
}

#[test]
fn keys_are_those_of_the_configuration() {
    let config = r#"{ "keys": { "access_key_id": "A", "secret_access_key": "S" } }"#;
    let host = TestHost::new();
    let provider = provider(&host, config, |_| Some("other".to_owned())).unwrap();
    expect(keys(&host, &provider), ("A", "S", None));
    assert!(!provider.forget(), "configured keys cannot be replaced by others");
}

#[test]
fn environment_comes_before_file_before_service() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".aws")).unwrap();
    let text = "[default]\naws_access_key_id = F\naws_secret_access_key = SF\n";
    fs::write(folder.path().join(".aws/credentials"), text).unwrap();
    let host = TestHost::new();
    let environment = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("E".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("SE".to_owned()),
        "AWS_SESSION_TOKEN" => Some("TE".to_owned()),
        _ => None,
    };
    expect(keys(&host, &provider(&host, "null", environment).unwrap()), ("E", "SE", Some("TE")));
    let config =
        format!(r#"{{ "file": {{ "path": "{}/.aws/credentials" }} }}"#, folder.path().display());
    expect(keys(&host, &provider(&host, &config, environment).unwrap()), ("F", "SF", None));
}

#[test]
fn missing_keys_are_named_with_all_their_sources() {
    let host = TestHost::new();
    let disabled = |name: &str| (name == "AWS_EC2_METADATA_DISABLED").then(|| "true".to_owned());
    let error = keys(&host, &provider(&host, "null", disabled).unwrap()).unwrap_err().to_string();
    assert!(error.contains("found no keys") && error.contains("`AWS_ACCESS_KEY_ID`"), "{error}");
    let one = |name: &str| (name == "AWS_ACCESS_KEY_ID").then(|| "E".to_owned());
    let error =
        keys(&host, &provider(&host, r#""environment""#, one).unwrap()).unwrap_err().to_string();
    assert!(error.contains("`AWS_SECRET_ACCESS_KEY` is not set"), "{error}");
    let config = r#"{ "file": { "path": "/none/credentials" } }"#;
    let absent = provider(&host, config, none).unwrap();
    let error = keys(&host, &absent).unwrap_err().to_string();
    assert!(error.contains("cannot read the credentials in `/none/credentials`"), "{error}");
    assert!(host.problem("credentials").unwrap().contains("/none/credentials"));
    for (config, part) in [
        (
            r#"{ "keys": { "access_key_id": "a b", "secret_access_key": "hidden" } }"#,
            "invalid access key ID",
        ),
        (r#"{ "keys": { "access_key_id": "A", "secret_access_key": "" } }"#, "it is empty"),
        (
            r#"{ "instance": { "endpoint": "http://a/x" } }"#,
            "invalid `credentials.instance.endpoint`",
        ),
        (r#""container""#, "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        (r#""web_identity""#, "`AWS_WEB_IDENTITY_TOKEN_FILE`"),
    ] {
        let error = provider(&host, config, none).err().unwrap().to_string();
        assert!(error.contains(part) && !error.contains("hidden"), "{error}");
    }
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).ok()
}

/// Starts a metadata service whose keys are numbered and expire at `expiration`. Returns its URL.
fn metadata_service(expiration: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut number = 0;
        for mut stream in listener.incoming().flatten() {
            while let Some(head) = read_head(&mut stream) {
                let has_token = head.contains("x-aws-ec2-metadata-token: a-token\r\n");
                let answer = match head.split("\r\n").next().unwrap() {
                    "PUT /latest/api/token HTTP/1.1"
                        if head.contains("x-aws-ec2-metadata-token-ttl-seconds: ") =>
                    {
                        "a-token".to_owned()
                    }
                    "GET /latest/meta-data/iam/security-credentials/ HTTP/1.1" if has_token => {
                        "a-role".to_owned()
                    }
                    "GET /latest/meta-data/iam/security-credentials/a-role HTTP/1.1"
                        if has_token =>
                    {
                        number += 1;
                        format!(
                            r#"{{ "Code": "Success", "AccessKeyId": "A{number}", "SecretAccessKey": "S", "Token": "T",
                            "Expiration": "{expiration}" }}"#
                        )
                    }
                    _ => panic!("{head}"),
                };
                let length = answer.len();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    url
}

#[test]
fn keys_of_an_instance_are_renewed_before_they_expire() {
    let url = metadata_service("2000-01-01T01:00:00Z");
    let host = TestHost::new();
    let begin = 946_684_800_000_000_000;
    host.set_now_ns(begin);
    let config = format!(r#"{{ "instance": {{ "endpoint": "{url}" }} }}"#);
    let provider = provider(&host, &config, none).unwrap();
    expect(keys(&host, &provider), ("A1", "S", Some("T")));
    let minute = 60_000_000_000;
    host.set_now_ns(begin + 54 * minute);
    expect(keys(&host, &provider), ("A1", "S", Some("T")));
    host.set_now_ns(begin + 56 * minute);
    expect(keys(&host, &provider), ("A2", "S", Some("T")));
    assert!(provider.forget());
    expect(keys(&host, &provider), ("A3", "S", Some("T")));
}

#[test]
fn keys_that_cannot_be_renewed_are_used_until_they_expire() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for answer in [
            "a-token",
            "a-role",
            r#"{ "AccessKeyId": "A", "SecretAccessKey": "S", "Expiration": "2000-01-01T00:01:00Z" }"#,
        ] {
            read_head(&mut stream).unwrap();
            let length = answer.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let host = TestHost::new();
    let begin = 946_684_800_000_000_000;
    host.set_now_ns(begin);
    let config = format!(r#"{{ "instance": {{ "endpoint": "{url}" }} }}"#);
    let provider = provider(&host, &config, none).unwrap();
    expect(keys(&host, &provider), ("A", "S", None));
    service.join().unwrap();
    expect(keys(&host, &provider), ("A", "S", None));
    assert!(host.problem("credentials").unwrap().contains("metadata service"));
    host.set_now_ns(begin + 60_000_000_000);
    let error = keys(&host, &provider).unwrap_err().to_string();
    assert!(error.contains("cannot read keys from the metadata service"), "{error}");
}

#[test]
fn container_is_asked_with_its_token() {
    static URL: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    URL.set(format!("http://{}/v2/keys?id=1", listener.local_addr().unwrap())).unwrap();
    let service = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = read_head(&mut stream).unwrap();
        let body = r#"{ "AccessKeyId": "A", "SecretAccessKey": "S", "Token": "T" }"#;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).unwrap();
        head
    });
    let variables = |name: &str| match name {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI" => URL.get().cloned(),
        "AWS_CONTAINER_AUTHORIZATION_TOKEN" => Some("a-token".to_owned()),
        _ => None,
    };
    let host = TestHost::new();
    let provider = provider(&host, r#""container""#, variables).unwrap();
    expect(keys(&host, &provider), ("A", "S", Some("T")));
    let head = service.join().unwrap();
    assert!(head.starts_with("GET /v2/keys?id=1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: a-token\r\n"), "{head}");
}

#[test]
fn role_is_assumed_with_the_token_of_its_file() {
    static STS: std::sync::OnceLock<[String; 2]> = std::sync::OnceLock::new();
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "a/token=\n").unwrap();
    let server = Server::start(|request| {
        assert_eq!(request.target(), "/");
        assert!(request.has("content-type: application/x-www-form-urlencoded"), "{}", request.head);
        if request.text().contains("WebIdentityToken=old") {
            let body = "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>old</Message></Error></ErrorResponse>";
            return Reply::With(400, "", body.to_owned());
        }
        assert_eq!(
            request.text(),
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr\
             &RoleSessionName=tremor&WebIdentityToken=a%2Ftoken%3D"
        );
        Reply::ok(
            "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <AssumeRoleWithWebIdentityResult><Credentials><SessionToken>T=</SessionToken>\
             <SecretAccessKey>S/</SecretAccessKey><Expiration>2000-01-01T01:00:00Z</Expiration>\
             <AccessKeyId>A</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>\
             </AssumeRoleWithWebIdentityResponse>",
        )
    });
    let url = format!("http://{}", server.address);
    STS.set([url, token.display().to_string()]).unwrap();
    let variables = |name: &str| match name {
        "AWS_ROLE_ARN" => Some("arn:aws:iam::1:role/r".to_owned()),
        "AWS_ENDPOINT_URL_STS" => Some(STS.get()?[0].clone()),
        "AWS_WEB_IDENTITY_TOKEN_FILE" => Some(STS.get()?[1].clone()),
        "AWS_EC2_METADATA_DISABLED" => Some("true".to_owned()),
        _ => None,
    };
    let host = TestHost::new();
    let begin = 946_684_800_000_000_000;
    host.set_now_ns(begin);
    for config in [r#""web_identity""#, "null"] {
        expect(keys(&host, &provider(&host, config, variables).unwrap()), ("A", "S/", Some("T=")));
    }
    let provider = provider(&host, r#""web_identity""#, variables).unwrap();
    fs::write(&token, "old").unwrap();
    let error = keys(&host, &provider).unwrap_err().to_string();
    assert!(error.contains("400 Bad Request: ExpiredTokenException"), "{error}");
    fs::write(&token, "a/token=").unwrap();
    expect(keys(&host, &provider), ("A", "S/", Some("T=")));
    fs::remove_file(&token).unwrap();
    host.set_now_ns(begin + 3_600_000_000_000);
    let error = keys(&host, &provider).unwrap_err().to_string();
    assert!(error.contains("cannot read the token in"), "{error}");
}
