//! Tests of names of peers: a name has several addresses, or moves to another address.

use std::{
    fs,
    io::{self, Read},
    net::{TcpListener, UdpSocket},
    process::{Command, Stdio},
};

use hostile_peers::{
    PATIENCE,
    acceptor::{accept_within, fill_queue},
};

use crate::{running::Running, tremor::Scene};

/// Starts `tremor` with a file of the test instead of `/etc/hosts`. Returns `None` if the system does not allow that.
fn with_hosts(scene: Scene) -> Option<Running> {
    let tries = ["--mount", "mount", "--bind", "/etc/hosts", "/etc/hosts"];
    let may = Command::new("unshare").args(tries).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!(
            "SKIPPED: `unshare --mount` and `mount` are not installed, or not permitted without root"
        );
        return None;
    }
    Some(Running::of(scene, &["flow.yaml"], |command| {
        let script = "mount --bind hosts /etc/hosts && exec \"$0\" \"$@\"";
        let mut within = Command::new("unshare");
        within.args(["--mount", "sh", "-c", script]).arg(command.get_program());
        within.args(command.get_args()).current_dir(command.get_current_dir().unwrap());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => within.env(name, value),
                None => within.env_remove(name),
            };
        }
        within.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        *command = within;
        command
    }))
}

/// Returns two listeners or sockets at the same port of 127.0.0.1 and 127.0.0.2, and the port. Returns `None` if the
/// system does not allow that.
fn two<L>(
    bind: impl Fn(&str, u16) -> io::Result<L>,
    port: impl Fn(&L) -> u16,
) -> Option<([L; 2], u16)> {
    let first = bind("127.0.0.1", 0).unwrap();
    let port = port(&first);
    let Ok(second) = bind("127.0.0.2", port) else {
        eprintln!(
            "SKIPPED: 127.0.0.2 is not an address of this machine, or its port {port} is taken"
        );
        return None;
    };
    Some(([first, second], port))
}

fn two_listeners() -> Option<([TcpListener; 2], u16)> {
    two(|ip, port| TcpListener::bind((ip, port)), |it| it.local_addr().unwrap().port())
}

#[test]
fn name_is_resolved_for_each_connection() {
    let Some(([first, second], port)) = two_listeners() else { return };
    for http in [false, true] {
        let output = if http {
            format!("type: http_client\n    config: {{ url: 'http://moves.test:{port}/' }}")
        } else {
            format!("type: tcp_client\n    config: {{ address: 'moves.test:{port}' }}")
        };
        let flow = format!(
            "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 10 }} }}
  output:
    codec: json
    postprocessors: [lines]
    retry: {{ attempts: 1000, backoff: 1ms, max_backoff: 10ms }}
    {output}
links: [input -> output]"
        );
        let scene = Scene::new(&flow).write("hosts", b"127.0.0.1 moves.test\n");
        let hosts = scene.path().join("hosts");
        let Some(running) = with_hosts(scene) else { return };
        let stream = accept_within(&first, PATIENCE).unwrap();
        // Wait until the first event is in flight to the first address.
        assert_eq!((&stream).read(&mut [0]).unwrap(), 1);
        fs::write(&hosts, "127.0.0.2 moves.test\n").unwrap();
        drop(stream);
        let stream = accept_within(&second, PATIENCE).unwrap();
        assert_eq!((&stream).read(&mut [0]).unwrap(), 1);
        drop(running);
        // Ignore connections that the listeners have received meanwhile.
        for listener in [&first, &second] {
            listener.set_nonblocking(true).unwrap();
            while listener.accept().is_ok() {}
            listener.set_nonblocking(false).unwrap();
        }
    }
}

/// The system may sort the addresses of a name in any order, so each of the two addresses is silent once.
#[test]
fn silent_address_does_not_hide_the_other_one() {
    for is_silent_first in [true, false] {
        let Some((mut listeners, port)) = two_listeners() else { return };
        if !is_silent_first {
            listeners.reverse();
        }
        let [silent, open] = listeners;
        let _filled = fill_queue(&silent).unwrap();
        for output in [
            format!("type: tcp_client\n    config: {{ address: 'both.test:{port}' }}"),
            format!("type: http_client\n    config: {{ url: 'http://both.test:{port}/' }}"),
            format!(
                "type: http_client\n    config: {{ url: 'http://both.test:{port}/', connect_timeout: 200ms }}"
            ),
            format!("type: ws_client\n    config: {{ url: 'ws://both.test:{port}/' }}"),
        ] {
            let flow = format!(
                "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 10 }} }}
  output:
    codec: json
    {output}
links: [input -> output]"
            );
            let hosts = b"127.0.0.1 both.test\n127.0.0.2 both.test\n";
            let Some(_running) = with_hosts(Scene::new(&flow).write("hosts", hosts)) else {
                return;
            };
            let stream = accept_within(&open, PATIENCE).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!((&stream).read(&mut [0]).unwrap(), 1, "{output}");
        }
    }
}

#[test]
fn datagrams_follow_the_name_of_their_peer() {
    let two = two(|ip, port| UdpSocket::bind((ip, port)), |it| it.local_addr().unwrap().port());
    let Some(([first, second], port)) = two else { return };
    let flow = format!(
        "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 10 }} }}
  output: {{ type: udp_client, codec: json, config: {{ address: 'moves.test:{port}' }} }}
links: [input -> output]"
    );
    let scene = Scene::new(&flow).write("hosts", b"127.0.0.1 moves.test\n");
    let hosts = scene.path().join("hosts");
    let Some(_running) = with_hosts(scene) else { return };
    for socket in [&first, &second] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    first.recv(&mut [0; 64]).unwrap();
    fs::write(&hosts, "127.0.0.2 moves.test\n").unwrap();
    // From now on, the system rejects datagrams to the first address.
    drop(first);
    second.recv(&mut [0; 64]).unwrap();
}
