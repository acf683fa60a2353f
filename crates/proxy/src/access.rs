//! The access log.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Instant, SystemTime};

use prometheus::proto::MetricFamily;
use tinaja_logs::{Format, Record, Sink};
use tinaja_store::Clock;

use crate::metrics::{counter, gauge};

/// Longest URL in a line, in bytes; longer ones are cut, as Squid does.
const MAX_URL_BYTES: usize = 8 * 1024;
/// Longest Referer, User-Agent and reason in a line, in bytes; longer ones are cut.
const MAX_FIELD_BYTES: usize = 2 * 1024;

/// The access log, or none.
#[derive(Debug, Default)]
pub(crate) struct AccessLog {
    sink: Option<Sink>,
    format: Format,
}

impl AccessLog {
    /// Errors: what the system says if the file cannot be opened.
    pub fn open(path: Option<&Path>, format: Format, clock: &Clock) -> io::Result<AccessLog> {
        Ok(AccessLog { sink: path.map(|path| Sink::open(path, clock)).transpose()?, format })
    }

    /// Whether records are wanted at all.
    pub fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// Has the file opened anew by its name.
    pub fn reopen(&self) {
        self.sink.as_ref().inspect(|sink| sink.reopen());
    }

    /// How the log keeps up, for Prometheus; nothing where there is none.
    pub fn families(&self) -> Vec<MetricFamily> {
        let Some(sink) = &self.sink else { return Vec::new() };
        vec![
            gauge("tinaja_access_log_waiting_lines", "Lines that wait for the disk.", sink.waiting() as f64),
            counter(
                "tinaja_access_log_dropped_lines_total",
                "Lines that were dropped since too many waited.",
                sink.dropped(),
            ),
        ]
    }

    /// Writes one line; never blocks.
    pub fn write(&self, mut record: Record) {
        let Some(sink) = &self.sink else { return };
        cut(&mut record.url, MAX_URL_BYTES);
        let long = [&mut record.referer, &mut record.user_agent, &mut record.content_type, &mut record.why];
        for field in long.into_iter().flatten() {
            cut(field, MAX_FIELD_BYTES);
        }
        let mut line = String::with_capacity(256);
        self.format.write(&record, &mut line);
        sink.send(line);
    }
}

fn cut(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
}

/// A record of a request from `client` that began at `began` and ended now.
pub(crate) fn record(client: IpAddr, began: Instant, clock: &Clock) -> Record {
    let now = clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Record {
        time_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        duration_ms: u64::try_from(clock.since(began).as_millis()).unwrap_or(u64::MAX),
        client: client.to_canonical().to_string(),
        ..Record::default()
    }
}
