//! H15: whatever the proxy sends to an origin is read by other servers as the proxy means it, in forward and in reverse mode.
//!
//! Requests are mutated in what decides where they end; those that the proxy passes on are recorded as it writes them, byte by
//! byte, and given to nginx, Apache, HAProxy, Node and Python. Each must find the same requests in them: number, method,
//! target, host and body. A last request behind them shows that nothing was left over or swallowed. A server may refuse a
//! method, target or host that it does not know; it may not take any request for another.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::parsers::{Parsed, Parser, Sink, Verdict, mutations};
use crate::script::Side;
use crate::script::message::Message;
use crate::script::wire::{Wire, shown};
use crate::support::Proxy;
use tinaja_proxy::{Mode, Routes};

/// Behind each mutated request; it closes the connection, so that nobody waits.
const LAST: &str = "GET /last HTTP/1.1\r\nHost: www.example\r\nConnection: close\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nCache-Control: no-store\r\n\r\n";
/// How long something that is not whole is waited for.
const PATIENCE: Duration = Duration::from_millis(150);

/// What the proxy made of one input.
#[derive(Default)]
struct Passed {
    /// The requests at the origin, as a strict reader reads them.
    requests: Vec<Parsed>,
    /// Their bytes as they came.
    bytes: Vec<u8>,
    /// A request reached the origin of which the rest never came.
    cut: bool,
}

struct Recorder {
    side: Side,
    proxy: Proxy,
    listener: TcpListener,
    origins: Vec<Wire>,
}

#[test]
fn other_servers_read_what_is_sent_to_origins_as_it_is_meant() {
    let sink = Sink::start();
    let servers = Parser::all(&sink);
    for side in [Side::Forward, Side::Reverse] {
        let inputs = mutations::all(side);
        let (passed, stopped) = record(&inputs, side);
        let refused = stopped.iter().filter(|stopped| !stopped.cut).count();
        let (cut, whole) = (stopped.len() - refused, passed.len());
        println!("{side:?}: {} mutated, {refused} refused, {cut} not whole, {whole} passed on", inputs.len());
        let tallies: Vec<Tally> = std::thread::scope(|scope| {
            let asked: Vec<_> = servers.iter().map(|server| scope.spawn(|| ask(server, &passed))).collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        for (server, Tally { agreed, refused, .. }) in servers.iter().zip(&tallies) {
            println!("{}: {agreed} read alike, {refused} with an odd method, target or host refused", server.name);
        }
        let wrong: Vec<String> = tallies.into_iter().flat_map(|tally| tally.wrong).collect();
        assert!(wrong.is_empty(), "{} read otherwise:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n\n"));
        assert!(refused > 300 && passed.len() > 300, "the mutations prove nothing");
    }
    for server in &servers {
        assert_eq!(ask(server, &[smuggled()]).wrong.len(), 1, "{} finds no hidden request", server.name);
    }
}

/// One request that is meant, and two in its bytes: what this test is there to find.
fn smuggled() -> Passed {
    let (method, target, host) = ("POST".into(), "/a".into(), "www.example".into());
    let bytes = b"POST /a HTTP/1.1\r\nHost: www.example\r\nContent-Length: 0\r\n\r\n\
                  GET /hidden HTTP/1.1\r\nHost: www.example\r\n\r\n";
    Passed { requests: vec![Parsed { method, target, host, body: Vec::new() }], bytes: bytes.to_vec(), cut: false }
}

/// What the proxy makes of each input: what it passes on, and the rest.
fn record(inputs: &[Vec<u8>], side: Side) -> (Vec<Passed>, Vec<Passed>) {
    // Some wait for what does not come, so several go at once.
    let all: Vec<Passed> = std::thread::scope(|scope| {
        let play = |inputs: &[Vec<u8>]| {
            let mut recorder = Recorder::start(side);
            inputs.iter().map(|input| recorder.play(input)).collect::<Vec<_>>()
        };
        let parts: Vec<_> = inputs.chunks(inputs.len() / 4 + 1).map(|part| scope.spawn(move || play(part))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    all.into_iter().partition(|passed| !passed.requests.is_empty())
}

/// How one server reads what was passed on.
#[derive(Default)]
struct Tally {
    agreed: usize,
    refused: usize,
    wrong: Vec<String>,
}

/// Gives one server everything that was passed on.
fn ask(server: &Parser, passed: &[Passed]) -> Tally {
    let mut tally = Tally::default();
    for Passed { requests, bytes, .. } in passed {
        let expected = requests.iter().chain([&last()]).map(Parsed::field).collect::<Vec<_>>();
        let bytes = [bytes, LAST.as_bytes()].concat();
        match server.read(&bytes) {
            Ok(Verdict::Read(found)) if found == expected => tally.agreed += 1,
            Ok(Verdict::Refused(found, _))
                if expected.starts_with(&found) && requests.iter().skip(found.len()).any(Parsed::is_odd) =>
            {
                tally.refused += 1;
            }
            other => tally.wrong.push(format!("{}: {other:?}\nnot {expected:?}\nfor {}", server.name, shown(&bytes))),
        }
    }
    tally
}

fn last() -> Parsed {
    let (method, target, host) = ("GET".into(), "/last".into(), "www.example".into());
    Parsed { method, target, host, body: Vec::new() }
}

impl Recorder {
    fn start(side: Side) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let proxy = match side {
            Side::Forward => Proxy::forward(),
            Side::Reverse => Proxy::with(|config| config.listeners[0].mode = Mode::Reverse(Routes::to(origin))),
        };
        Recorder { side, proxy, listener, origins: Vec::new() }
    }

    /// An input with the origin's address where it belongs.
    fn addressed(&self, input: &[u8]) -> Vec<u8> {
        let origin = self.listener.local_addr().unwrap().to_string();
        assert_eq!(origin.len(), mutations::ORIGIN.len(), "lengths in the inputs stay true");
        let mut addressed = input.to_vec();
        while let Some(at) = addressed.windows(origin.len()).position(|bytes| bytes == mutations::ORIGIN.as_bytes()) {
            addressed[at..at + origin.len()].copy_from_slice(origin.as_bytes());
        }
        addressed
    }

    /// Sends one input to the proxy and answers whatever of it reaches the origin.
    fn play(&mut self, input: &[u8]) -> Passed {
        let mut client = Wire::new(TcpStream::connect(self.proxy.address).unwrap());
        let last = mutations::for_side(LAST, self.side);
        client.send(self.addressed(&[input, last.as_bytes()].concat()), None);
        let mut passed = Passed::default();
        let mut until = Instant::now() + PATIENCE;
        while Instant::now() < until && !client.is_over() {
            client.fill();
            while let Ok((stream, _)) = self.listener.accept() {
                self.origins.push(Wire::new(stream).keeping(PATIENCE));
            }
            self.origins.iter_mut().for_each(Wire::fill);
            let Some(speaking) = self.origins.iter().position(|wire| !wire.unread().is_empty()) else { continue };
            let wire = &mut self.origins[speaking];
            match Message::read(wire, None) {
                Ok(Some(request)) if request.whole => {
                    let bytes = wire.taken();
                    wire.send(ANSWER.to_vec(), None);
                    passed.add(&request, &bytes);
                    until = Instant::now() + PATIENCE;
                }
                Err(error) if error.starts_with("the proxy sent") => panic!("{error}\nfor {}", shown(input)),
                _ => {
                    passed.cut = true;
                    self.origins.remove(speaking);
                }
            }
        }
        self.origins.retain(|wire| !wire.is_over());
        let refused = [&b"HTTP/1.1 4"[..], b"HTTP/1.1 5"].iter().any(|start| client.unread().starts_with(start));
        passed.cut |= passed.requests.is_empty() && !refused;
        passed
    }
}

impl Passed {
    fn add(&mut self, request: &Message, bytes: &[u8]) {
        let parsed = Parsed::of(request);
        if parsed.target != "/last" {
            self.requests.push(parsed);
            self.bytes.extend_from_slice(bytes);
        }
    }
}
