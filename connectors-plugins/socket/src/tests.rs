//! Runs the conformance checks of the clients against peers in the test.

use std::{
    fs,
    io::{self, Read, Write},
    net::TcpListener,
    os::unix::net::UnixListener,
    thread,
};

use tremor_pdk::{
    Connector, Result,
    testing::{Connection, batch_of, conformance},
};

use super::{tcp_client::TcpClient, unix_client::UnixClient};

/// Checks that do not apply, because other tests run in this process, because the source has no end
/// and no acknowledgements, or because the sink takes one delivery at a time.
const SKIPPED: [&str; 7] = [
    "stays_inside",
    "leaves_nothing",
    "stays_finished",
    "accepts_acknowledgements",
    "flushes",
    "reads_again",
    "takes_several",
];

/// Sends messages to the peer of a client, and pulls a response. Expects `origin` as the origin of
/// the response.
pub(crate) fn expect_exchange(
    client: &mut Connection,
    peer: &mut (impl Read + Write),
    origin: &str,
) -> Result<()> {
    client.deliver(&batch_of(&[b"one\n", b"two\n"])).unwrap();
    let mut received = [0; 8];
    peer.read_exact(&mut received)?;
    assert_eq!(&received, b"one\ntwo\n");
    peer.write_all(b"answer")?;
    let (_, batch) = client.pull()?;
    let event = batch.first().unwrap();
    assert_eq!((event.raw(), event.origin()), (Some(&b"answer"[..]), Some(origin)));
    Ok(())
}

/// Runs the conformance checks of a client twice: with peers that only read, and with peers that
/// also send lines. `listen` starts a listener. `listen` returns the configuration of a client for
/// this listener, and a function that accepts a connection and returns the reader and the writer of
/// the connection.
fn expect_conformance<C, A, S>(listen: impl Fn() -> Result<(String, A)>) -> Result<()>
where
    C: Connector,
    A: FnMut() -> io::Result<(S, S)> + Send + 'static,
    S: Read + Write + Send + 'static,
{
    let lines: Vec<_> = (0..1_000).map(|line| format!("line {line}")).collect();
    for sent in [String::new(), lines.join("\n")] {
        let (config, mut accept) = listen()?;
        let is_silent = sent.is_empty();
        thread::spawn(move || {
            while let Ok((mut reader, mut writer)) = accept() {
                let sent = sent.clone();
                thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
                // Writing fails once the client is dropped.
                thread::spawn(move || writer.write_all(sent.as_bytes()));
            }
        });
        let report = conformance::connector::<C>(&config);
        if is_silent {
            report.expect_no_faults();
        } else {
            report.expect_all_but(&SKIPPED);
        }
    }
    Ok(())
}

#[test]
fn tcp_client_passes_conformance_checks() -> Result<()> {
    expect_conformance::<TcpClient, _, _>(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let config = format!(r#"{{ "address": "{}" }}"#, listener.local_addr()?);
        let accept = move || {
            let (peer, _) = listener.accept()?;
            Ok((peer.try_clone()?, peer))
        };
        Ok((config, accept))
    })
}

#[test]
fn unix_client_passes_conformance_checks() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("socket");
    let config = format!(r#"{{ "path": "{}" }}"#, path.display());
    expect_conformance::<UnixClient, _, _>(|| {
        // Remove the socket of the previous listener.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let accept = move || {
            let (peer, _) = listener.accept()?;
            Ok((peer.try_clone()?, peer))
        };
        Ok((config.clone(), accept))
    })
}
