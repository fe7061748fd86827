//! Attacks on the ports of the ZooKeeper server and of the web pages, and attacks that are the same on every port.

use std::time::{Duration, Instant};

use super::wire::{Peer, framed};
use super::{Attack, Scene};
use crate::Outcome;

/// Number of connections that are opened and dropped.
const DROPPED: usize = 3_000;
/// Number of connections that are held open: more than the default limit of open files.
const HELD: usize = 1_200;

pub(super) fn everywhere() -> Vec<Attack> {
    vec![
        Attack { name: "3,000 connections opened and dropped", megabytes: 128, act: dropped },
        Attack { name: "1,200 connections that send nothing", megabytes: 128, act: held },
        Attack { name: "500 connections that send single bytes", megabytes: 64, act: slow },
    ]
}

pub(super) fn registry() -> Vec<Attack> {
    vec![
        Attack { name: "garbage and invalid lengths", megabytes: 16, act: registry_garbage },
        Attack { name: "a session and a read cut at every byte", megabytes: 16, act: registry_cut },
        Attack { name: "every operation with invalid bodies", megabytes: 32, act: registry_operations },
        Attack { name: "hundreds of thousands of reads and watches", megabytes: 128, act: registry_many },
    ]
}

pub(super) fn web() -> Vec<Attack> {
    vec![
        Attack { name: "garbage and nearly HTTP", megabytes: 16, act: web_garbage },
        Attack { name: "very many headers", megabytes: 64, act: web_headers },
        Attack { name: "bodies without end", megabytes: 64, act: web_bodies },
        Attack {
            name: "10,000 requests at once, whose answers are never read",
            megabytes: 64,
            act: web_pipeline,
        },
    ]
}

fn dropped(scene: &Scene<'_>) -> Outcome {
    for number in 0..DROPPED {
        let mut peer = Peer::connect(scene.address)?;
        match number % 3 {
            0 => {}
            1 => drop(peer.tell(b"H")),
            _ => drop(peer.tell(&[0, 0, 0, 45, 0])),
        }
    }
    scene.settled()
}

fn held(scene: &Scene<'_>) -> Outcome {
    let mut peers = Vec::new();
    for _ in 0..HELD {
        peers.push(Peer::connect(scene.address)?);
    }
    scene.alive("as long as they are held")?;
    drop(peers);
    scene.settled()
}

fn slow(scene: &Scene<'_>) -> Outcome {
    let mut peers = Vec::new();
    for _ in 0..500 {
        peers.push(Peer::connect(scene.address)?);
    }
    // The server's limit for a handshake is one second. A client must not gain time by sending single bytes.
    let words: &[u8] = b"\0\0\0\x2d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let words = if scene.is_web { &b"GET / HTTP/1.1\r\nX-A: bbbbbbbbbbbbbbbbb"[..] } else { words };
    let words = if scene.is_rpc { &b"HBas\0\x50\0\x0f\xff\xff\x0a\x01a\x12\x01b"[..] } else { words };
    let began = Instant::now();
    for byte in words.iter().cycle() {
        peers.retain_mut(|peer| peer.tell(&[*byte]));
        if peers.is_empty() {
            return Ok(());
        }
        if began.elapsed() > Duration::from_secs(10) {
            return Err(format!("{} of 500 slow connections are still open after 10 s", peers.len()));
        }
        scene.alive("beside slow connections")?;
    }
    Ok(())
}

fn hello() -> Vec<u8> {
    let mut body = vec![0; 4 + 8];
    body.extend_from_slice(&30_000u32.to_be_bytes());
    body.extend_from_slice(&[0; 8]);
    body.extend_from_slice(&16u32.to_be_bytes());
    body.extend_from_slice(&[0; 16]);
    body.push(0);
    framed(&body)
}

fn text(value: &[u8]) -> Vec<u8> {
    framed(value)
}

fn operation(code: i32, body: &[u8]) -> Vec<u8> {
    framed(&[&1i32.to_be_bytes()[..], &code.to_be_bytes(), body].concat())
}

fn registry_garbage(scene: &Scene<'_>) -> Outcome {
    for length in [u32::MAX, 0x8000_0000, i32::MAX as u32, 0x10_0000, 0, 3] {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(&length.to_be_bytes());
        peer.tell(&[0; 64]);
        peer.finish();
        peer.rest().map_err(|why| format!("a hello of {length} bytes: {why}"))?;
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(&hello());
        peer.tell(&length.to_be_bytes());
        peer.tell(&[0; 64]);
        peer.finish();
        peer.rest().map_err(|why| format!("a frame of {length} bytes: {why}"))?;
    }
    for round in 0..100 {
        let mut bytes: Vec<u8> = (0..scene.below(3_000)).map(|_| scene.below(256) as u8).collect();
        if round % 2 == 0 {
            bytes.splice(0..0, hello()).for_each(drop);
        }
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(&bytes);
        peer.finish();
        peer.rest()?;
    }
    for word in [&b"ruok"[..], b"zzzz", b"dump", b"kill", b"srvrsrvrsrvr"] {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(word);
        if peer.rest()?.is_empty() {
            return Err(format!("the word {} has no answer", word.escape_ascii()));
        }
    }
    Ok(())
}

fn registry_cut(scene: &Scene<'_>) -> Outcome {
    let bytes = [hello(), operation(4, &[&text(b"/hbase/master")[..], &[1]].concat())].concat();
    for at in 0..bytes.len() {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(&bytes[..at]);
        peer.finish();
        peer.rest().map_err(|why| format!("cut at byte {at}: {why}"))?;
    }
    Ok(())
}

fn registry_operations(scene: &Scene<'_>) -> Outcome {
    for code in (-13..=30).chain(98..=110).chain([i32::MIN, i32::MAX]) {
        let path = text(b"/hbase/master");
        let lies: [&[u8]; 7] = [
            b"",
            &path,
            &u32::MAX.to_be_bytes(),
            &i32::MAX.to_be_bytes(),
            &[0, 0, 0, 2, 0xff, 0xfe, 1],
            &[0; 200],
            &[0xff; 200],
        ];
        for lie in lies {
            let mut peer = Peer::connect(scene.address)?;
            peer.tell(&hello());
            peer.tell(&operation(code, lie));
            peer.finish();
            peer.rest().map_err(|why| format!("operation {code} of {}: {why}", lie.escape_ascii()))?;
        }
    }
    Ok(())
}

fn registry_many(scene: &Scene<'_>) -> Outcome {
    // One frame of nearly the maximum length has very many reads.
    let read =
        [&4i32.to_be_bytes()[..], &[0], &(-1i32).to_be_bytes(), &text(b"/hbase/hbaseid"), &[0]].concat();
    let mut reads = read.repeat(1_000_000 / read.len());
    reads.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff]);
    // More watches than the server permits, with paths of all kinds.
    let mut watches = 0u64.to_be_bytes().to_vec();
    watches.extend_from_slice(&60_000u32.to_be_bytes());
    for number in 0..60_000u32 {
        watches.extend_from_slice(&text(format!("/w{number}").as_bytes()));
    }
    watches.extend_from_slice(&[0; 8]);
    for _ in 0..10 {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(&hello());
        peer.tell(&operation(22, &reads));
        peer.tell(&operation(101, &watches));
        peer.finish();
        peer.rest()?;
    }
    Ok(())
}

fn web_garbage(scene: &Scene<'_>) -> Outcome {
    let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(1 << 20));
    let requests: [&[u8]; 12] = [
        b"\0\0\0\0\0\0\0\0",
        b"HBas\0\x50",
        b"\r\n\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        b"GET /%00%ff%2e%2e/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        b"DELETE /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        long.as_bytes(),
    ];
    for bytes in requests {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(bytes);
        peer.finish();
        let answer = peer.rest()?;
        if answer.starts_with(b"HTTP/1.1 200") || answer.windows(5).any(|bytes| bytes == b"root:") {
            return Err(format!("{:.60} is answered", bytes.escape_ascii().to_string()));
        }
    }
    for _ in 0..100 {
        let bytes: Vec<u8> = (0..scene.below(3_000)).map(|_| scene.below(256) as u8).collect();
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(&bytes);
        peer.finish();
        peer.rest()?;
    }
    Ok(())
}

fn web_headers(scene: &Scene<'_>) -> Outcome {
    for line in [format!("X-{}: {}\r\n", "a".repeat(100), "b".repeat(8_000)), "X: y\r\n".to_owned()] {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(b"GET / HTTP/1.1\r\nHost: h\r\n");
        let block = line.repeat(100_000 / line.len());
        let mut sent = 0;
        while sent < 64 << 20 && peer.tell(block.as_bytes()) {
            sent += block.len();
        }
        if sent >= 64 << 20 {
            return Err("64 MB of headers are taken".to_owned());
        }
        peer.rest()?;
    }
    Ok(())
}

fn web_bodies(scene: &Scene<'_>) -> Outcome {
    for head in [
        &b"POST /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000000\r\n\r\n"[..],
        b"POST /metrics HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n",
    ] {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(head);
        let block = vec![0; 1 << 20];
        let mut sent = 0;
        while sent < 100 && peer.tell(&block) {
            sent += 1;
        }
        peer.finish();
        let answer = peer.rest()?;
        if !answer.is_empty() && !answer.starts_with(b"HTTP/1.1 4") {
            return Err(format!("a body without end: {:.60}", answer.escape_ascii().to_string()));
        }
    }
    Ok(())
}

fn web_pipeline(scene: &Scene<'_>) -> Outcome {
    let mut peers = Vec::new();
    let requests = b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n".repeat(10_000);
    for _ in 0..10 {
        let mut peer = Peer::connect(scene.address)?;
        peer.0
            .set_write_timeout(Some(Duration::from_millis(200)))
            .map_err(|error| format!("a socket: {error}"))?;
        peer.tell(&requests);
        peers.push(peer);
    }
    scene.alive("beside requests whose answers are not read")
}
