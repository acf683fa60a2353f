//! Traces made from requests: what a browser's cache would have been asked for them.

use std::collections::HashMap;

use super::{Call, Event, Extent, TraceKey};
use crate::load::Request;
use crate::random::{Random, mix};

/// How requests become calls. What a log does not say is drawn from the seed.
#[derive(Clone, Copy, Debug)]
pub struct MakeOptions {
    /// What is random begins from it.
    pub seed: u64,
    /// An entry older than this, since it was fetched or the server was asked last, is asked for again; as is one for which the
    /// log says that nothing was sent. In microseconds.
    pub fresh_us: u64,
    /// The share of these that had changed: they are doomed and made anew.
    pub changed: f64,
}

impl MakeOptions {
    /// Entries stay fresh for a day, and of those asked for again one in twenty had changed: chosen; the paper says nothing of either.
    pub fn new(seed: u64) -> Self {
        MakeOptions { seed, fresh_us: 86_400_000_000, changed: 0.05 }
    }
}

/// Bytes that a browser reads and writes at a time.
const PIECE: u64 = 32 << 10;
/// A session ends when nothing is asked for this long: 30 minutes.
const SESSION_US: u64 = 1_800_000_000;
/// From one call to the next without the network between them; the paper's sample has 180 us.
const CALL_US: u64 = 180;
/// To the server and back; and a piece from it, at 8 Mbit/s, the paper's WiFi (section 4.3).
const ROUND_TRIP_US: u64 = 60_000;
const PIECE_US: u64 = 32_768;

/// The calls for requests: of a new object `OpenEntry` fails, and it is created and written as it comes; one that is there is read; one
/// that must be asked for again has its stream 0, the answer's head, rewritten, or is doomed and made anew. Several are open at
/// once as they were asked for. The requests' times must not go backwards. Memory: some 100 bytes a call.
pub fn trace_of(requests: &[Request], options: &MakeOptions) -> Vec<Event> {
    let mut maker = Maker { calls: Vec::new(), objects: HashMap::new(), handles: 0 };
    let mut random = Random::new(options.seed);
    for request in requests.iter().filter(|request| request.cachable) {
        maker.one(request, options, &mut random);
    }
    // As a browser sees them: in the order of their times, and of two at one time the one made first.
    maker.calls.sort_by_key(|(time, _)| *time);
    let mut before = None;
    maker
        .calls
        .into_iter()
        .map(|(time_us, call)| {
            let starts_session = before.is_none_or(|before| time_us - before > SESSION_US);
            before = Some(time_us);
            Event { time_us, starts_session, call }
        })
        .collect()
}

struct Object {
    asked_us: u64,
    /// When all calls so far for it are over: another one that writes waits for that.
    idle_us: u64,
    /// When those that write are.
    written_us: u64,
}

struct Maker {
    calls: Vec<(u64, Call)>,
    objects: HashMap<u64, Object>,
    handles: u64,
}

/// The calls of one handle, one behind the other.
struct Visit<'a> {
    calls: &'a mut Vec<(u64, Call)>,
    now: u64,
    key: TraceKey,
    entry: u64,
    /// Bytes of streams 0 and 1.
    sizes: [u64; 2],
}

impl Maker {
    fn one(&mut self, request: &Request, options: &MakeOptions, random: &mut Random) {
        let asked_us = request.time.as_micros() as u64;
        let (changed, head) = (random.chance(options.changed), 300 + mix(request.object) % 500);
        self.handles += 1;
        let known = self.objects.get(&request.object);
        let again = known.is_some_and(|known| {
            asked_us.saturating_sub(known.asked_us) > options.fresh_us || (request.sent_bytes == 0 && request.bytes > 0)
        });
        let waits_for = known.map_or(0, |known| if again { known.idle_us } else { known.written_us });
        let mut visit = Visit {
            calls: &mut self.calls,
            now: asked_us.max(waits_for),
            key: key_of(request.object),
            entry: 0x1000_0000 + self.handles * 0x80,
            sizes: [head, request.bytes],
        };
        let writes = known.is_none() || again;
        match (known.is_some(), again) {
            (false, _) => visit.fetch(),
            (true, false) => visit.read(),
            (true, true) if changed => visit.replace(),
            (true, true) => visit.revalidate(),
        }
        let ended = visit.now;
        let object = self.objects.entry(request.object).or_insert(Object { asked_us, idle_us: 0, written_us: 0 });
        object.idle_us = object.idle_us.max(ended);
        if writes {
            object.written_us = object.written_us.max(ended);
            object.asked_us = asked_us;
        }
    }
}

impl Visit<'_> {
    fn call(&mut self, call: Call) {
        self.calls.push((self.now, call));
        self.now += CALL_US;
    }

    fn write(&mut self, stream: u32, offset: u64, len: u64, truncate: bool) {
        let part = Extent { stream, offset, len };
        self.call(Call::Write { entry: self.entry, part, truncate, result: len as i64 });
    }

    fn read_stream(&mut self, stream: u32) {
        let [head, body] = self.sizes;
        let size = if stream == 0 { head } else { body };
        for offset in (0..size).step_by(PIECE as usize) {
            let part = Extent { stream, offset, len: PIECE };
            let result = PIECE.min(size - offset) as i64;
            self.call(Call::Read { entry: self.entry, part, result });
        }
    }

    /// Looked for in vain, created, and written as it comes.
    fn fetch(&mut self) {
        self.call(Call::Open { key: self.key, entry: None });
        self.create();
    }

    fn create(&mut self) {
        let [head, body] = self.sizes;
        self.call(Call::Create { key: self.key, entry: Some(self.entry) });
        self.now += ROUND_TRIP_US;
        self.write(0, 0, head, true);
        for offset in (0..body).step_by(PIECE as usize) {
            let len = PIECE.min(body - offset);
            self.now += PIECE_US * len / PIECE;
            self.write(1, offset, len, false);
        }
        self.call(Call::Close { entry: self.entry });
    }

    fn read(&mut self) {
        self.call(Call::Open { key: self.key, entry: Some(self.entry) });
        self.read_stream(0);
        self.read_stream(1);
        self.call(Call::Close { entry: self.entry });
    }

    /// The server says that it is still right: its head is rewritten.
    fn revalidate(&mut self) {
        self.call(Call::Open { key: self.key, entry: Some(self.entry) });
        self.read_stream(0);
        self.now += ROUND_TRIP_US;
        self.write(0, 0, self.sizes.first().copied().unwrap_or_default(), true);
        self.read_stream(1);
        self.call(Call::Close { entry: self.entry });
    }

    /// The server sends another one.
    fn replace(&mut self) {
        self.call(Call::Open { key: self.key, entry: Some(self.entry) });
        self.read_stream(0);
        self.now += ROUND_TRIP_US;
        self.call(Call::Doom { entry: self.entry });
        self.call(Call::Close { entry: self.entry });
        // The same entry of the browser's memory is used again, as the paper's sample has it.
        self.create();
    }
}

/// A key for an object, as long as URLs are.
fn key_of(object: u64) -> TraceKey {
    let mut hash = [0; 20];
    for (number, part) in (0_u64..).zip(hash.chunks_mut(8)) {
        let bytes = mix(object.wrapping_add(number << 32)).to_be_bytes();
        part.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    }
    TraceKey { hash, len: 40 + (mix(!object) % 80) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browser::{MOST_PAUSE_US, TRIM_BYTES, parse_line, prepare};
    use std::time::Duration;

    fn request(seconds: u64, object: u64, bytes: u64, sent_bytes: u64) -> Request {
        let time = Duration::from_secs(seconds);
        Request { time, object, bytes, sent_bytes, client: 1, referer: None, host: 1, stream: 0, cachable: true }
    }

    fn names(events: &[Event]) -> Vec<String> {
        events.iter().map(|event| event.to_string().split(' ').nth(1).unwrap().replace("Entry", "")).collect()
    }

    #[test]
    fn objects_are_created_read_and_asked_for_again() {
        let requests = [request(0, 1, 40_000, 40_000), request(9, 1, 40_000, 40_000), request(5000, 1, 40_000, 0)];
        let never = MakeOptions { changed: 0.0, ..MakeOptions::new(1) };
        let events = trace_of(&requests, &never);
        let (create, read) = (["Open", "Create", "WriteData", "WriteData", "WriteData", "Close"], "ReadData");
        let again = ["Open", read, "WriteData", read, read, "Close"];
        assert_eq!(names(&events), [&create[..], &["Open", read, read, read, "Close"], &again].concat());
        assert!(events[11].starts_session && events.iter().filter(|event| event.starts_session).count() == 2);
        assert_eq!(events[3].to_string().split(' ').nth(3), Some("32768:0"));
        assert!(events.iter().all(|event| parse_line(&event.to_string()).unwrap().call == event.call));
        let changed = trace_of(&requests, &MakeOptions { changed: 1.0, ..never });
        assert_eq!(names(&changed)[11..], [&["Open", read, "Doom", "Close"], &create[1..]].concat());
    }

    #[test]
    fn several_are_open_at_once_and_none_is_read_before_it_is_written() {
        let requests = [request(0, 1, 500_000, 500_000), request(0, 2, 9, 9), request(0, 1, 500_000, 500_000)];
        let events = trace_of(&requests, &MakeOptions::new(1));
        assert!(names(&events).starts_with(&["Open", "Open", "Create", "Create"].map(String::from)), "{events:?}");
        let prepared = prepare(&events, MOST_PAUSE_US, TRIM_BYTES);
        assert_eq!((prepared.lookups, prepared.hits, prepared.left_out, prepared.turned), (3, 1, 0, 0));
        assert_eq!(prepared.events.len(), events.len(), "a cache without end could have given it");
    }
}
