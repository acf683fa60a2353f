//! A run of a case: the steps one after the other, at both ends.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::case::{Act, Case, Closing, End, Reading, Step};
use super::expect::{Expected, find, matches};
use super::gateway::Gateway;
use super::message::Message;
use super::proxies;
use super::text::Names;
use super::wire::{PATIENCE, Wire, shown};
use super::{Over, Side};
use crate::support::Proxy;

/// How long a silence is listened to.
const SILENCE: Duration = Duration::from_millis(60);

/// Everything that takes part in a run.
struct Stage {
    /// Where clients connect.
    entrance: SocketAddr,
    gateway: Option<Gateway>,
    _proxy: Proxy,
    log: std::path::PathBuf,
    listeners: Vec<TcpListener>,
    clients: BTreeMap<String, Wire>,
    /// Connections to the origin in the order they were made; those that the origin has closed are gone.
    origins: Vec<Option<Wire>>,
    /// The one that the origin last heard a request on.
    speaking: usize,
}

/// Plays all rows of a case on one side.
pub fn play(case: &Case, side: Side, over: Over) -> Result<(), String> {
    let directory = TempDir::new().map_err(|error| error.to_string())?;
    let log = directory.path().join("access.log");
    let listeners = listeners();
    let origin = listeners[0].local_addr().unwrap().to_string();
    let other = listeners[1].local_addr().unwrap().to_string();
    let proxy = proxies::start(case, side, &origin, &log)?;
    let address = proxy.address.to_string();
    let gateway = (over == Over::Http2).then(|| Gateway::start(proxy.address));
    let entrance = gateway.as_ref().map_or(proxy.address, |gateway| gateway.address);
    let (clients, origins) = (BTreeMap::new(), Vec::new());
    let mut stage = Stage { entrance, gateway, _proxy: proxy, log, listeners, clients, origins, speaking: 0 };
    let mut failed = Vec::new();
    for (number, row) in case.rows.iter().enumerate() {
        let names = Names { side, origin: origin.clone(), other: other.clone(), proxy: address.clone(), number, row };
        if let Err(error) = stage.row(&case.steps, &names) {
            failed.push(format!("{error}\n  in row {number}: {row:?}"));
            // The next row begins with nothing left over of this one.
            stage.origins.iter_mut().for_each(|wire| *wire = None);
        }
        stage.clients.clear();
    }
    stage.nothing_more(SILENCE).unwrap_or_else(|error| failed.push(error));
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Two addresses of the origin, at one port.
fn listeners() -> Vec<TcpListener> {
    loop {
        let one = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = one.local_addr().unwrap().port();
        if let Ok(other) = TcpListener::bind(("127.0.0.2", port)) {
            one.set_nonblocking(true).unwrap();
            other.set_nonblocking(true).unwrap();
            return vec![one, other];
        }
    }
}

impl Stage {
    fn row(&mut self, steps: &[Step], names: &Names<'_>) -> Result<(), String> {
        for step in steps {
            let data = names.expand(&step.data).map_err(|error| format!("line {}: {error}", step.line))?;
            self.step(&step.act, &data).map_err(|error| format!("line {}: {error}", step.line))?;
        }
        self.nothing_more(Duration::ZERO)
    }

    fn step(&mut self, act: &Act, data: &[u8]) -> Result<(), String> {
        match act {
            Act::Send(end, pause) => {
                self.wire(end)?.send(data.to_vec(), *pause);
                Ok(())
            }
            Act::Get(End::Client(name), reading) => {
                (0..reading.times).try_for_each(|_| self.answer(name, reading, data))
            }
            Act::Get(end, reading) => (0..reading.times).try_for_each(|_| self.request(end, reading, data)),
            Act::GetNoWhole(End::Client(name)) => self.no_whole_answer(name),
            Act::GetNoWhole(_) => self.no_whole_request(),
            Act::GetBytes(end) => self.bytes(end, data),
            Act::IsClosed(end, closing) => self.closed(end, *closing),
            Act::Ends(end) => {
                self.wire(end)?.end();
                Ok(())
            }
            Act::Leaves(end) => {
                self.take(end)?.leave();
                Ok(())
            }
            Act::OriginHearsNothing => self.nothing_more(SILENCE),
            Act::OriginConnections(count) => {
                self.listen();
                let made = self.origins.len();
                if made == *count { Ok(()) } else { Err(format!("the origin has had {made} connections")) }
            }
            Act::Log => self.check_log(data),
            Act::Wait(pause) => {
                std::thread::sleep(*pause);
                Ok(())
            }
        }
    }

    fn closed(&mut self, end: &End, closing: Closing) -> Result<(), String> {
        let goes_on = self.gateway.is_some() && matches!(end, End::Client(_)) && closing == Closing::Plain;
        let wire = self.wire(end)?;
        if closing == Closing::BehindMore {
            return wire.is_closed_behind_more();
        }
        if !goes_on {
            return wire.is_closed();
        }
        let until = Instant::now() + SILENCE;
        while Instant::now() < until && wire.unread().is_empty() {
            wire.fill();
        }
        if wire.unread().is_empty() { Ok(()) } else { Err(format!("it sent more: {}", shown(wire.unread()))) }
    }

    fn answer(&mut self, name: &str, reading: &Reading, data: &[u8]) -> Result<(), String> {
        let expected = Expected::parse(data)?;
        let wire = self.wire(&End::Client(name.to_owned()))?;
        let mut answer = next_answer(wire, reading)?;
        // "Go on" may come before any answer, unless it is what the script is about.
        if answer.status()? == 100 && !data.starts_with(b"100") {
            answer = next_answer(wire, reading)?;
        }
        expected.check_answer(&answer, reading.cut).map_err(|error| with(error, &answer))
    }

    fn request(&mut self, end: &End, reading: &Reading, data: &[u8]) -> Result<(), String> {
        let expected = Expected::parse(data)?;
        self.heard(end)?;
        let request = Message::read(self.wire(&End::Origin(None))?, None)?.ok_or("closed without a request")?;
        expected.check_request(&request, reading.cut).map_err(|error| with(error, &request))
    }

    fn no_whole_answer(&mut self, name: &str) -> Result<(), String> {
        let wire = self.wire(&End::Client(name.to_owned()))?;
        match Message::read(wire, Some("GET"))? {
            Some(answer) if answer.status()? < 400 && answer.whole => Err(with("it is whole".into(), &answer)),
            _ => Ok(()),
        }
    }

    /// The proxy may find out what is wrong with a body only after it has asked for a connection, or sent its head. By
    /// now it has answered, so that what it sends is on its way.
    fn no_whole_request(&mut self) -> Result<(), String> {
        let until = Instant::now() + SILENCE / 3;
        while Instant::now() < until {
            self.listen();
            if let Some(wire) = self.origins.iter_mut().flatten().find(|wire| !wire.unread().is_empty()) {
                return match Message::read(wire, None)? {
                    Some(request) if request.whole => Err(with("it is whole".into(), &request)),
                    _ => Ok(()),
                };
            }
        }
        Ok(())
    }

    fn bytes(&mut self, end: &End, data: &[u8]) -> Result<(), String> {
        if matches!(end, End::Origin(_)) {
            self.heard(end)?;
        }
        let mut bytes = Vec::new();
        let read = self.wire(end)?.exactly(data.len() as u64, &mut bytes);
        if read.is_ok() && bytes == data { Ok(()) } else { Err(format!("{read:?}, {}", shown(&bytes))) }
    }

    /// Waits until the origin hears something, on the connection it should if that matters.
    fn heard(&mut self, end: &End) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.listen();
            let speaking = self.origins.iter().position(|wire| wire.as_ref().is_some_and(|w| !w.unread().is_empty()));
            if let Some(speaking) = speaking {
                self.speaking = speaking;
                return match end {
                    End::Origin(Some(number)) if *number != speaking + 1 => {
                        Err(format!("it came on connection {}", speaking + 1))
                    }
                    _ => Ok(()),
                };
            }
        }
        self.clients.values_mut().for_each(Wire::fill);
        let heard: Vec<String> = self.clients.values().map(|wire| shown(wire.unread())).collect();
        Err(format!("the origin hears nothing; the clients have got: {}", heard.join("\n")))
    }

    /// Takes new connections and new bytes.
    fn listen(&mut self) {
        for listener in &self.listeners {
            while let Ok((stream, _)) = listener.accept() {
                self.origins.push(Some(Wire::new(stream)));
            }
        }
        if self.origins.iter().all(Option::is_none) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.origins.iter_mut().flatten().for_each(Wire::fill);
    }

    fn wire(&mut self, end: &End) -> Result<&mut Wire, String> {
        match end {
            End::Client(name) => {
                let address = self.entrance;
                Ok(self.clients.entry(name.clone()).or_insert_with(|| Wire::new(TcpStream::connect(address).unwrap())))
            }
            End::Origin(number) => {
                let number = number.map_or(self.speaking, |number| number.wrapping_sub(1));
                self.origins.get_mut(number).and_then(Option::as_mut).ok_or("no such connection".into())
            }
        }
    }

    fn take(&mut self, end: &End) -> Result<Wire, String> {
        self.wire(end)?;
        let wire = match end {
            End::Client(name) => self.clients.remove(name),
            End::Origin(number) => {
                let number = number.map_or(self.speaking, |number| number.wrapping_sub(1));
                self.origins.get_mut(number).and_then(Option::take)
            }
        };
        wire.ok_or("no such connection".into())
    }

    /// Nobody has got, or gets for a while, what the script does not speak of.
    fn nothing_more(&mut self, a_while: Duration) -> Result<(), String> {
        let until = Instant::now() + a_while;
        loop {
            self.listen();
            self.clients.values_mut().for_each(Wire::fill);
            let origins = self.origins.iter().flatten().map(|wire| ("the origin", wire.unread()));
            let clients = self.clients.values().map(|wire| ("a client", wire.unread()));
            if let Some((who, what)) = origins.chain(clients).find(|(_, unread)| !unread.is_empty()) {
                return Err(format!("{who} got more than the case says: {}", shown(what)));
            }
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    fn check_log(&self, data: &[u8]) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        let mut missing = None;
        loop {
            let log = std::fs::read(&self.log).unwrap_or_default();
            for line in data.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
                let has = |wanted: &[u8]| log.split(|byte| *byte == b'\n').any(|line| matches(wanted, line));
                match line.strip_prefix(b"!") {
                    Some(unwanted) if find(&log, unwanted).is_some() => {
                        return Err(format!("the log has {}: {}", shown(unwanted), shown(&log)));
                    }
                    None if !has(line) => missing = Some(format!("the log has no {}: {}", shown(line), shown(&log))),
                    _ => {}
                }
            }
            match missing.take() {
                None => return Ok(()),
                Some(missing) if Instant::now() > until => return Err(missing),
                Some(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

fn next_answer(wire: &mut Wire, reading: &Reading) -> Result<Message, String> {
    Message::read(wire, Some(&reading.method))?.ok_or("the connection was closed without an answer".into())
}

fn with(error: String, message: &Message) -> String {
    let fields: Vec<u8> =
        message.fields.iter().flat_map(|(name, value)| [name.as_bytes(), b": ", value, b"\r\n"].concat()).collect();
    format!("{error}, in:\n    {}\n    {}\n    {}", message.first, shown(&fields), shown(&message.body))
}
