//! Tests of the page "A syslog relay with a file for each host".

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    net::{TcpStream, UdpSocket},
    path::Path,
};

use super::{Kitchen, flows, values};
use crate::{peer::wait_until, running::Running};

/// Returns the addresses of both servers: TCP and UDP.
fn addresses(running: &mut Running) -> (String, String) {
    let parts = ["component=\"tcp\"", "component=\"udp\""];
    let mut found = BTreeMap::new();
    while found.len() < 2 {
        let line = running.until("listens on ");
        let (_, address) = line.split_once("listens on ").unwrap();
        let address = address.split_whitespace().next().unwrap().to_owned();
        let part = parts.iter().find(|part| line.contains(**part)).unwrap();
        found.insert(*part, address);
    }
    (found[parts[0]].clone(), found[parts[1]].clone())
}

/// Returns the messages in the files of each host.
fn received(remote: &Path) -> BTreeMap<String, Vec<String>> {
    let mut hosts = BTreeMap::new();
    for host in fs::read_dir(remote).unwrap().map(Result::unwrap) {
        let messages: &mut Vec<String> =
            hosts.entry(host.file_name().into_string().unwrap()).or_default();
        for day in fs::read_dir(host.path()).unwrap().map(Result::unwrap) {
            let name = day.file_name().into_string().unwrap();
            assert!(name.len() == "2026-11-29.log".len(), "{name}");
            assert_eq!(Path::new(&name).extension(), Some("log".as_ref()));
            let text = fs::read_to_string(day.path()).unwrap();
            messages.extend(text.lines().map(str::to_owned));
        }
        messages.sort();
    }
    hosts
}

#[test]
fn each_host_has_a_file_and_no_host_leaves_the_folder() {
    let kitchen = Kitchen::new();
    let remote = kitchen.log("remote");
    fs::create_dir(&remote).unwrap();
    let replaced = [("0.0.0.0:601", "127.0.0.1:0"), ("0.0.0.0:514", "127.0.0.1:0")];
    let mut running = kitchen.start(&flows("relay.md")[0], &replaced, &[]);
    let (tcp, udp) = addresses(&mut running);
    let message =
        |host: &str, text: &str| format!("<13>1 2026-11-29T08:30:00Z {host} app - - - {text}");
    let counted = |message: &str| format!("{} {message}", message.len());
    let mut tcp = TcpStream::connect(tcp).unwrap();
    let expected = [("web-1", "one"), ("web-2", "two"), ("web-1", "three")];
    let stream = [
        counted(&message("web-1", "one")),
        message("web-2", "two") + "\n",
        message("web-1", "three") + "\0",
        counted(&message("../../x", "outside")),
        counted(&message("..", "above")),
        counted(&message("web-1", "two\nlines")),
        message("-", "nobody") + "\n",
    ];
    tcp.write_all(stream.concat().as_bytes()).unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.send_to(message("db-1", "four").as_bytes(), udp).unwrap();

    let mut files = BTreeMap::<_, Vec<_>>::new();
    for (host, text) in expected.into_iter().chain([("db-1", "four")]) {
        files.entry(host.to_owned()).or_default().push(message(host, text));
    }
    files.insert("unknown".to_owned(), vec![message("-", "nobody")]);
    files.values_mut().for_each(|messages| messages.sort());
    let dead = kitchen.state("dead.json");
    wait_until(|| received(&remote) == files && values(&dead).len() == 3);
    running.signal(&["TERM"]);
    running.end().expect(0, &["8 events in, 5 out, 3 dead-lettered"]);
    let dead: Vec<_> = values(&dead).iter().map(ToString::to_string).collect();
    for (text, reason) in
        [("outside", "text without `/`"), ("above", "`.` or `..`"), ("two\\nlines", "line feed")]
    {
        let letter = dead.iter().find(|letter| letter.contains(text));
        assert!(letter.is_some_and(|it| it.contains(reason)), "{text}: {dead:?}");
    }
}
