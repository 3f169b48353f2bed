//! Origins of data from the network, with the metadata `%peer`.

use std::{net::SocketAddr, path::Path};

use super::Address;
use crate::{Origin, Writer};

/// Returns the origin of data from `peer`. The metadata has the address and the port: `%peer.address` and `%peer.port`.
///
/// An IPv4 address that a socket for IPv6 has mapped to IPv6 becomes an IPv4 address in the metadata, so that the same
/// host has the same `%peer.address` on every listener.
pub fn peer_origin(peer: SocketAddr) -> Origin {
    let address = peer.ip().to_canonical().to_string();
    Origin::new(&peer.to_string(), |writer| write_peer(writer, &address, peer.port()))
}

/// Returns the origin of data from a peer that a client connects to, with the host as configured: a name or an IP
/// address. `text` describes the origin, such as a URL.
pub fn server_origin(text: &str, address: &Address) -> Origin {
    Origin::new(text, |writer| write_peer(writer, &address.host(), address.port()))
}

/// Returns the origin of data from a Unix domain socket. The metadata has the path of the socket: `%peer.path`. Bytes
/// of the path that are not UTF-8 are replaced by U+FFFD.
pub fn socket_origin(path: &Path) -> Origin {
    let path = path.to_string_lossy();
    Origin::new(&path, |writer| {
        writer.begin_object();
        writer.key("peer");
        writer.begin_object();
        writer.key("path");
        writer.str(&path);
        writer.end_object();
        writer.end_object();
    })
}

fn write_peer(writer: &mut Writer<'_>, address: &str, port: u16) {
    writer.begin_object();
    writer.key("peer");
    writer.begin_object();
    writer.key("address");
    writer.str(address);
    writer.key("port");
    writer.u64(port.into());
    writer.end_object();
    writer.end_object();
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

    use super::{Origin, peer_origin, server_origin, socket_origin};

    fn expect(origin: &Origin, text: &str, metadata: &str) {
        assert_eq!(origin.text(), text);
        assert_eq!(origin.metadata().unwrap().to_string(), metadata);
    }

    #[test]
    fn origin_of_peer_has_its_address_and_port() {
        for (peer, address) in [
            ("10.0.0.7:514", "10.0.0.7"),
            ("[2001:db8::1]:514", "2001:db8::1"),
            ("[::ffff:10.0.0.7]:514", "10.0.0.7"),
        ] {
            let metadata = format!(r#"{{"peer":{{"address":"{address}","port":514}}}}"#);
            expect(&peer_origin(peer.parse().unwrap()), peer, &metadata);
        }
        let server = server_origin("ws://logs:80/in", &"logs:80".parse().unwrap());
        expect(&server, "ws://logs:80/in", r#"{"peer":{"address":"logs","port":80}}"#);
    }

    #[test]
    fn invalid_text_of_socket_path_is_replaced() {
        let path = Path::new(OsStr::from_bytes(b"/run/a\xff.sock"));
        let expected = r#"{"peer":{"path":"/run/a�.sock"}}"#;
        expect(&socket_origin(path), "/run/a\u{fffd}.sock", expected);
    }
}
