//! Tests of the metadata of sources (`docs/guide/metadata.md`). A filter passes an event on if it has the expected
//! metadata.

use std::{
    fs,
    io::Write,
    net::{TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use crate::{peer::as_frames, running::Running, support::workspace, tremor::Scene};

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn example_of_the_page_separates_files() {
    let page = fs::read_to_string(workspace().join("docs/guide/metadata.md")).unwrap();
    let (_, flow) = page.split_once("```yaml\n").unwrap();
    let (flow, _) = flow.split_once("```\n").unwrap();
    let scene = Scene::new(flow);
    fs::create_dir(scene.path().join("logs")).unwrap();
    let scene = scene
        .write("logs/auth.log", b"login\nlogout, without an end")
        .write("logs/sudo.log", b"root\n")
        .write("logs/app.log", b"started\nstopped\n");
    scene.run().expect(0, &["5 events in, 5 out"]);
    assert_eq!(sorted(&scene.read("audit.out")), ["login", "logout, without an end", "root"]);
    assert_eq!(sorted(&scene.read("other.out")), ["started", "stopped"]);
}

/// Returns a scene with a file at `path`, whose source is `source`, and whose lines pass if all of their metadata are
/// `metadata`. In both texts, `FOLDER` stands for the folder of the scene.
fn of_file(path: &str, contents: &[u8], source: &str, metadata: &str) -> Scene {
    let scene = Scene::new("");
    let folder = fs::canonicalize(scene.path()).unwrap();
    let file = folder.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, contents).unwrap();
    let flow = format!(
        "connectors:
  input: {{ type: file, {source} }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
pipelines:
  known: {{ operators: [{{ type: filter, config: {{ field: '%', equals: {metadata} }} }}] }}
links: [input -> known -> output, input/err -> known]"
    );
    scene.write("flow.yaml", flow.replace("FOLDER", folder.to_str().unwrap()).as_bytes())
}

/// The third line becomes a dead letter. The last line has no line feed, so the end of the stream completes it.
#[test]
fn all_lines_and_dead_letters_of_a_file_have_its_metadata() {
    let scene = of_file(
        "app.log",
        b"1\n22\nbad\n333",
        "preprocessors: [lines], codec: json, config: { path: app.log, mode: read, chunk_bytes: 3 }",
        r#"{ "file": { "path": "FOLDER/app.log", "name": "app.log" } }"#,
    );
    let run = scene.run();
    run.expect(0, &[]);
    let lines = sorted(&run.stdout);
    assert_eq!((lines.len(), &lines[..3]), (4, &["1", "22", "333"][..]), "{lines:?}");
    assert!(lines[3].contains("bad"), "{lines:?}");
}

#[test]
fn file_without_preprocessor_has_its_metadata() {
    let scene = of_file(
        "app.json",
        b"[1,\n2]",
        "codec: json, config: { path: app.json, mode: read, chunk_bytes: 3 }",
        r#"{ "file": { "path": "FOLDER/app.json", "name": "app.json" } }"#,
    );
    let run = scene.run();
    run.expect(0, &[]);
    assert_eq!(run.stdout, "[1,2]\n");
}

#[test]
fn log_of_container_has_names_of_kubernetes() {
    let pod = "shop_cart-7d4b_0e0b5ae1-8a5c-4a3e-9a0b-3f6f5a4c1d2e";
    let path = format!("log/pods/{pod}/web/0.log");
    let metadata = format!(
        r#"{{ "file": {{ "path": "FOLDER/{path}", "name": "0.log" }},
              "kubernetes": {{ "namespace": "shop", "pod": "cart-7d4b", "container": "web" }} }}"#
    );
    let source =
        "preprocessors: [lines], codec: string, config: { path: 'log/pods/*/*/*.log', mode: read }";
    let run = of_file(&path, b"one\ntwo\n", source, &metadata).run();
    run.expect(0, &[]);
    assert_eq!(run.stdout, "\"one\"\n\"two\"\n");
}

/// A source with `offset`, and operators that replace each event by its offset and its text.
fn with_offsets(preprocessors: &str, contents: &[u8], more: &str) -> String {
    let flow = format!(
        "connectors:
  input:
    type: file
    preprocessors: [{preprocessors}]
    codec: string
    config: {{ path: app.log, mode: read, offset: true{more} }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
pipelines:
  show:
    operators:
      - type: set
        config:
          edits:
            - {{ field: '%text', copy: '' }}
            - {{ field: '', template: '{{%file.offset}} {{%text}}' }}
links: [input -> show -> output]"
    );
    let run = Scene::new(&flow).write("app.log", contents).run();
    run.expect(0, &[]);
    run.stdout.clone()
}

#[test]
fn joined_lines_have_offset_of_first_line() {
    let lines = b"one\n two\n three\nfour\nlast";
    for chunk in [1, 3, 7, 1_000] {
        let more = format!(", chunk_bytes: {chunk}");
        let found = with_offsets("lines", lines, &more);
        let expected = "\"0 one\"\n\"4  two\"\n\"9  three\"\n\"16 four\"\n\"21 last\"\n";
        assert_eq!(found, expected, "{chunk}");
        let found = with_offsets("{ multiline: { continue: '^ ' } }", lines, &more);
        let expected = "\"0 one\\n two\\n three\"\n\"16 four\"\n\"21 last\"\n";
        assert_eq!(found, expected, "{chunk}");
    }
    let line = |flag: &str, text: &str| format!("2026-11-26T10:00:00Z stdout {flag} {text}\n");
    let parts = [line("F", "one"), line("P", "tw"), line("F", "o")].concat();
    let found = with_offsets("cri", parts.as_bytes(), "");
    assert_eq!(found, format!("\"0 one\"\n\"{} two\"\n", line("F", "one").len()));
}

/// A flow whose events pass if they meet a condition.
struct Server {
    running: Running,
    address: String,
}

impl Server {
    fn start(input: &str, condition: &str) -> Self {
        let flow = format!(
            "connectors:
  input: {{ {input} }}
  output: {{ type: stdio, codec: string, postprocessors: [lines] }}
pipelines:
  known: {{ operators: [{{ type: filter, config: {condition} }}] }}
links: [input -> known -> output]"
        );
        let mut running = Running::of(Scene::new(&flow), &["flow.yaml"], |command| command);
        let (address, _) = running.listens();
        Self { running, address: address.trim_matches('`').to_owned() }
    }

    fn path(&self) -> PathBuf {
        self.running.scene.path().join(Path::new(&self.address))
    }

    /// Expects these events, and then ends the flow.
    fn expect(self, events: &[&str]) {
        for event in events {
            assert_eq!(self.running.event(), *event);
        }
        self.running.signal(&["TERM"]);
        assert_eq!(self.running.end().expect(0, &[]).stdout, "");
    }
}

/// Condition for events of a client on this machine.
const LOCAL: &str =
    "{ all: [{ field: '%peer.address', equals: 127.0.0.1 }, { field: '%peer.port', greater: 0 }] }";

#[test]
fn lines_of_a_tcp_connection_have_its_peer() {
    for listen in ["127.0.0.1:0", "[::]:0"] {
        let input = format!(
            "type: tcp_server, preprocessors: [lines], codec: string, config: {{ listen: '{listen}' }}"
        );
        let server = Server::start(&input, LOCAL);
        let port = server.address.rsplit_once(':').unwrap().1;
        let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        client.write_all(b"one\ntw").unwrap();
        assert_eq!(server.running.event(), "one");
        client.write_all(b"o\nthree").unwrap();
        drop(client);
        server.expect(&["two", "three"]);
    }
}

#[test]
fn datagram_has_address_and_port_of_its_sender() {
    let [known, other] = ["127.0.0.1:0", "127.0.0.2:0"].map(|it| UdpSocket::bind(it).unwrap());
    let port = known.local_addr().unwrap().port();
    let condition =
        format!("{{ field: '%', equals: {{ peer: {{ address: 127.0.0.1, port: {port} }} }} }}");
    let input = "type: udp_server, codec: string, config: { listen: '127.0.0.1:0' }";
    let server = Server::start(input, &condition);
    for (socket, text) in [(&known, "one"), (&other, "no"), (&known, "two"), (&known, "three")] {
        socket.send_to(text.as_bytes(), &server.address).unwrap();
    }
    server.expect(&["one", "two", "three"]);
}

#[test]
fn unix_connection_has_path_of_its_socket() {
    let condition = "{ field: '%peer.path', ends_with: /in.sock }";
    let input =
        "type: unix_server, preprocessors: [lines], codec: string, config: { listen: ./in.sock }";
    let server = Server::start(input, condition);
    UnixStream::connect(server.path()).unwrap().write_all(b"one\ntwo").unwrap();
    server.expect(&["one", "two"]);
}

#[test]
fn lines_of_a_request_have_its_metadata() {
    let condition =
        "{ all: [{ field: '%peer.address', equals: 127.0.0.1 }, { field: '%http', equals: {
        method: POST, path: /logs, query: a=b, headers: { x-tenant: seven } } }] }";
    let input = "type: http_server, preprocessors: [lines], codec: string, \
                 config: { listen: '127.0.0.1:0', headers: [X-Tenant, x-missing] }";
    let server = Server::start(input, condition);
    let mut client = TcpStream::connect(&server.address).unwrap();
    let head = "Host: a\r\nX-Tenant: seven\r\nContent-Length: 7";
    let requests = format!(
        "POST /logs?a=b HTTP/1.1\r\n{head}\r\n\r\none\ntwoPOST /other HTTP/1.1\r\n{head}\r\n\r\nnot\nit!"
    );
    client.write_all(requests.as_bytes()).unwrap();
    server.expect(&["one", "two"]);
}

#[test]
fn message_of_a_websocket_has_its_peer() {
    let input = "type: ws_server, codec: string, config: { listen: '127.0.0.1:0' }";
    let server = Server::start(input, LOCAL);
    let mut client = TcpStream::connect(&server.address).unwrap();
    client.write_all(&as_frames("one", true)).unwrap();
    server.expect(&["one"]);
}
