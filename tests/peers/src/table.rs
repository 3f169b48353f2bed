//! The attacks.

use std::{io, path::Path};

use crate::{
    Attack, Peer,
    attacker::Via::{Accepted, Tcp, Udp, Unix},
};

/// The attacks on connectors that strangers can reach.
pub const ATTACKS: [Attack; 20] = [
    Attack {
        name: "tcp_server_endless_line_of_a_bomb",
        flow: "connectors:
  input: { type: tcp_server, preprocessors: [decompress, lines], codec: string, config: { listen: LISTEN } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| peer.open(Tcp, 3, &bomb(b'x')),
    },
    Attack {
        name: "tcp_server_empty_lines_of_a_bomb",
        flow: "connectors:
  input: { type: tcp_server, preprocessors: [decompress, lines], codec: string, config: { listen: LISTEN } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| peer.open(Tcp, 3, &bomb(b'\n')),
    },
    Attack {
        name: "tcp_server_endless_line",
        flow: "connectors:
  input: { type: tcp_server, preprocessors: [lines], codec: string, config: { listen: LISTEN } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| peer.flood(Tcp, 3, b"", &[b'x'; CHUNK]),
    },
    Attack {
        name: "tcp_server_lines_to_batches_of_one",
        flow: "connectors:
  input: { type: tcp_server, preprocessors: [lines], codec: string, config: { listen: LISTEN } }
  output: { type: 'null', batch: { max_events: 1 } }
links: [input -> output]",
        round: |peer| peer.flood(Tcp, 3, b"", &b"x\n".repeat(CHUNK / 2)),
    },
    Attack {
        name: "tcp_server_half_messages",
        flow: "connectors:
  input: { type: tcp_server, preprocessors: [lines], codec: string, config: { listen: LISTEN } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| peer.open(Tcp, 200, &[b'x'; CHUNK]),
    },
    Attack {
        name: "tcp_server_connections_that_close",
        flow: "connectors:
  input: { type: tcp_server, preprocessors: [lines], codec: string, config: { listen: LISTEN } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| peer.close(Tcp, 2_000, b""),
    },
    Attack {
        name: "unix_server_endless_line_of_a_bomb",
        flow: "connectors:
  input: { type: unix_server, preprocessors: [decompress, lines], codec: string, config: { listen: socket } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| peer.open(Unix, 3, &bomb(b'x')),
    },
    Attack {
        name: "udp_server_empty_datagrams",
        flow: "connectors:
  input: { type: udp_server, codec: string, config: { listen: DATAGRAMS, reuse_port: true } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| peer.flood(Udp, 3, b"x", b""),
    },
    Attack {
        name: "http_server_empty_bodies_with_large_headers",
        flow: "connectors:
  input: { type: http_server, codec: string, config: { listen: LISTEN, headers: [large] } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| {
            let large = "x".repeat(60_000);
            let request =
                format!("POST / HTTP/1.1\r\nHost: a\r\nLarge: {large}\r\nContent-Length: 0\r\n\r\n");
            peer.flood(Tcp, 10, b"", request.as_bytes())
        },
    },
    Attack {
        name: "http_server_body_of_a_bomb",
        flow: "connectors:
  input: { type: http_server, preprocessors: [lines], codec: string, config: { listen: LISTEN } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| {
            let bomb = bomb(b'\n');
            let head = format!(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: zstd\r\nContent-Length: {}\r\n\r\n",
                bomb.len()
            );
            peer.open(Tcp, 20, &[head.as_bytes(), &bomb].concat())
        },
    },
    Attack {
        name: "http_server_half_requests",
        flow: "connectors:
  input: { type: http_server, codec: string, config: { listen: LISTEN } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| {
            let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n";
            peer.open(Tcp, 200, &[head, &[b'x'; CHUNK][..]].concat())
        },
    },
    Attack {
        name: "ws_server_empty_messages",
        flow: "connectors:
  input: { type: ws_server, codec: string, config: { listen: LISTEN } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| peer.flood(Tcp, 3, UPGRADE, &EMPTY_MESSAGE.repeat(CHUNK / 6)),
    },
    Attack {
        name: "ws_server_empty_messages_to_clients_that_do_not_read",
        flow: "connectors:
  peers: { type: ws_server, codec: string, config: { listen: LISTEN } }
links: [peers -> peers]",
        round: |peer| peer.flood(Tcp, 3, UPGRADE, &EMPTY_MESSAGE.repeat(CHUNK / 6)),
    },
    Attack {
        name: "ws_server_half_messages",
        flow: "connectors:
  input: { type: ws_server, codec: string, config: { listen: LISTEN } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| {
            let frame = [&[0x82, 0xff, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0][..], &[0; 3 << 20]];
            peer.open(Tcp, 120, &[UPGRADE, &frame.concat()].concat())
        },
    },
    Attack {
        name: "syslog_invalid_lines",
        flow: "connectors:
  input: { type: tcp_server, preprocessors: [lines], codec: syslog, err: discard, config: { listen: LISTEN } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| peer.flood(Tcp, 3, b"", &b"<34>1 -\n<\n".repeat(CHUNK / 10)),
    },
    Attack {
        name: "syslog_invalid_datagrams",
        flow: "connectors:
  input: { type: udp_server, codec: syslog, err: discard, config: { listen: DATAGRAMS, reuse_port: true } }
  output: { type: 'null' }
links: [input -> output]",
        round: |peer| peer.flood(Udp, 3, b"<", b"<34>1 -"),
    },
    Attack {
        name: "tcp_client_bomb_of_a_peer_that_closes",
        flow: "connectors:
  input:
    type: tcp_client
    preprocessors: [decompress, lines]
    codec: string
    reconnect: { backoff: 1ms, max_backoff: 1ms }
    config: { address: PEER }
  output: { type: 'null', batch: { max_events: 1 } }
links: [input -> output]",
        round: |peer| peer.close(Accepted, 50, &bomb(b'\n')),
    },
    Attack {
        name: "tcp_client_peer_that_does_not_read",
        flow: "connectors:
  input: { type: exec, preprocessors: [lines], codec: string, config: { command: 'yes' } }
  output: { type: tcp_client, postprocessors: [lines], codec: string, config: { address: PEER } }
links: [input -> output]",
        round: |peer| peer.open(Accepted, 3, b""),
    },
    Attack {
        name: "exec_endless_line",
        flow: "connectors:
  input: { type: exec, preprocessors: [lines], codec: string, config: { command: cat, args: [/dev/zero] } }
  output: { type: 'null' }
links: [input -> output]",
        round: idle,
    },
    Attack {
        name: "file_folders_that_are_links_to_each_other",
        flow: "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config: { path: 'tree/**/*.log', mode: read, follow: true }
  output: { type: 'null' }
links: [input -> output]",
        round: idle,
    },
];

/// Number of bytes of one write of most attacks.
const CHUNK: usize = 1 << 16;

/// The handshake of RFC 6455, section 1.2.
const UPGRADE: &[u8] =
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// A frame of a client: text, masked with zeros, without a payload.
const EMPTY_MESSAGE: [u8; 6] = [0x81, 0x80, 0, 0, 0, 0];

/// Does nothing, because the flow's process or its folders are the attack.
fn idle(peer: &mut Peer) -> io::Result<()> {
    peer.open(Tcp, 0, b"")
}

/// Returns 256 KiB that zstd decompresses to 8 GiB of `byte`: a frame of 65,536 blocks that each repeat one byte.
fn bomb(byte: u8) -> Vec<u8> {
    // A frame without sizes and checksums, with a window of 128 KiB.
    let head = [0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    // A block that repeats one byte 2^17 times. The lowest bit marks the last block of a frame. It
    // is not set, so that the frame never ends.
    let block = [0b010, 0, 0x10, byte];
    [&head[..], &block.repeat(1 << 16)].concat()
}

/// Makes folders `tree/a` and `tree/b` with links to each other, so that a search that follows links never ends.
pub(crate) fn link_folders_to_each_other(folder: &Path) -> io::Result<()> {
    let tree = folder.join("tree");
    for (name, to) in [("a", "../b"), ("b", "../a")] {
        let folder = tree.join(name);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("x.log"), "a line\n")?;
        for link in 0..4 {
            let link = folder.join(format!("link{link}"));
            if !link.is_symlink() {
                std::os::unix::fs::symlink(to, link)?;
            }
        }
    }
    Ok(())
}
