//! Requests from logs: Squid's, Common, Combined and JSON access logs, and two simple forms with a request a line:
//!
//! - `.tsv`: seconds, client, host, URL, status, bytes, referer, and whatever follows, between tabs;
//! - `.csv`: seconds, object, bytes, client, between commas.
//!
//! Any of them may be packed by gzip or zstd. The form and the packing are told by the file's first bytes, not by its name.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::Path;
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use tinaja_logs::Format;

use super::Request;
use crate::error::LabError;

/// Requests that are read of one log, at most: 80 bytes each. The rest is left out, and said so.
pub const MAX_REQUESTS: usize = 20_000_000;
/// A line of a log is no longer; what is longer is not read.
const MAX_LINE_BYTES: u64 = 256 << 10;
/// Lines that are looked at to find out a log's form.
const TRIED_LINES: usize = 20;
/// So many lines that cannot be read are passed over, or a tenth of the lines so far if that is more: a log with more is another
/// one than it seems to be.
const PASSED_OVER_LINES: u64 = 1000;
/// So many of them are told by their numbers.
const TOLD_LINES: usize = 10;

/// The requests of a log that can be replayed: `GET`s that were answered with an object.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In the order of the log; an object has the largest size that it is seen with anywhere.
    pub requests: Vec<Request>,
    /// Lines that could not be read.
    pub unreadable: u64,
    /// The numbers of the first ten of them, from 1 on.
    pub unreadable_lines: Vec<u64>,
    /// Requests that [`Kept`] leaves out.
    pub left_out: u64,
    /// Whether the log went on beyond [`MAX_REQUESTS`], or as many as were asked for.
    pub cut: bool,
}

/// Which requests are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// Those that were answered with an object: 200, 203, 206 and 304.
    #[default]
    Answered,
    /// Those that Maltzahn, Richardson and Grunwald keep (section 4): by HTTP, answered 200, without `?` and `cgi-bin` in the URL.
    Static,
}

/// What one line says, as text.
struct Line<'a> {
    seconds: f64,
    client: &'a str,
    host: &'a str,
    url: &'a str,
    status: u16,
    bytes: u64,
    referer: Option<&'a str>,
}

#[derive(Clone, Copy)]
enum Form {
    Log(Format),
    Tabs,
    Commas,
}

const FORMS: [Form; 6] = [
    Form::Tabs,
    Form::Log(Format::Json),
    Form::Log(Format::Squid),
    Form::Log(Format::Combined),
    Form::Log(Format::Common),
    Form::Commas,
];

/// Read a log. Memory: 80 bytes a request, and 16 for each object. Errors: it cannot be opened, or holds no request of
/// a form that is known.
pub fn read_trace(path: &Path) -> Result<Trace, LabError> {
    read_trace_of(path, Kept::Answered, MAX_REQUESTS)
}

/// The same, of some requests only, and so many of them at most.
pub fn read_trace_of(path: &Path, kept: Kept, most: usize) -> Result<Trace, LabError> {
    let refused = |why: String| LabError::Trace { path: path.to_path_buf(), why };
    let text = open_text(path).map_err(|error| refused(error.to_string()))?;
    read(text, kept, most.min(MAX_REQUESTS)).map_err(refused)
}

/// A file's text, unpacked if it is packed by gzip or zstd. Errors: it cannot be opened or read.
pub(crate) fn open_text(path: &Path) -> io::Result<impl BufRead> {
    let mut packed = BufReader::with_capacity(1 << 16, File::open(path)?);
    let first = packed.fill_buf()?;
    let plain: Box<dyn Read> = if first.starts_with(&[0x1F, 0x8B]) {
        Box::new(MultiGzDecoder::new(packed))
    } else if first.first_chunk().is_some_and(|first| is_zstd(u32::from_le_bytes(*first))) {
        Box::new(Frames { frame: None, packed: Some(packed) })
    } else {
        Box::new(packed)
    };
    Ok(BufReader::new(plain))
}

fn is_zstd(magic: u32) -> bool {
    magic == FRAME || magic & !15 == SKIPPED_FRAME
}

/// What zstd has packed, one frame after the other; frames that say that they are to be skipped are. Memory: a window, 100 MiB at most.
struct Frames<R: BufRead> {
    frame: Option<Frame<R>>,
    /// What is not unpacked yet, between two frames.
    packed: Option<R>,
}

/// One of them; its first bytes were read to tell what it is.
type Frame<R> = StreamingDecoder<Chain<Cursor<[u8; 4]>, R>, FrameDecoder>;

/// The first bytes of a frame of zstd's, and of one that is to be skipped but for its last four bits.
const FRAME: u32 = 0xFD2F_B528;
const SKIPPED_FRAME: u32 = 0x184D_2A50;

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let read = frame.read(into)?;
                if read > 0 || into.is_empty() {
                    return Ok(read);
                }
            }
            if let Some(frame) = self.frame.take() {
                let said = frame.decoder.get_checksum_from_data();
                if said.is_some() && said != frame.decoder.get_calculated_checksum() {
                    return Err(io::Error::other("the checksum of what zstd packed is wrong"));
                }
                self.packed = Some(frame.into_inner().into_inner().1);
            }
            let Some(mut packed) = self.packed.take() else { return Ok(0) };
            if packed.fill_buf()?.is_empty() {
                self.packed = Some(packed);
                return Ok(0);
            }
            let mut magic = [0; 4];
            packed.read_exact(&mut magic)?;
            if u32::from_le_bytes(magic) & !15 == SKIPPED_FRAME {
                let mut bytes = [0; 4];
                packed.read_exact(&mut bytes)?;
                let bytes = u64::from(u32::from_le_bytes(bytes));
                if io::copy(&mut packed.by_ref().take(bytes), &mut io::sink())? < bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.packed = Some(packed);
            } else {
                self.frame = Some(StreamingDecoder::new(Cursor::new(magic).chain(packed)).map_err(io::Error::other)?);
            }
        }
    }
}

fn read(mut from: impl BufRead, kept: Kept, most: usize) -> Result<Trace, String> {
    let mut trace = Trace::default();
    let mut first = Vec::new();
    while first.len() < TRIED_LINES {
        match next_line(&mut from).map_err(|error| error.to_string())? {
            Some(line) => first.push(line),
            None => break,
        }
    }
    let fits = |form: &Form| first.iter().filter(|line| parse(*form, line, &mut |_| ())).count();
    let form = FORMS.into_iter().rev().max_by_key(fits).filter(|form| fits(form) * 2 > first.len());
    let form = form.ok_or("its first lines are of no form that is known (Squid, Common, Combined, JSON, tsv, csv)")?;
    let mut lines = first.into_iter();
    let mut number = 0_u64;
    loop {
        let line = match lines.next() {
            Some(line) => line,
            None => match next_line(&mut from).map_err(|error| format!("after line {number}: {error}"))? {
                Some(line) => line,
                None => break,
            },
        };
        number += 1;
        if trace.requests.len() >= most {
            trace.cut = true;
            break;
        }
        let known = parse(form, &line, &mut |line| {
            let is_kept = kept.keeps(&line);
            trace.requests.extend(request(&line).filter(|_| is_kept));
            trace.left_out += u64::from(!is_kept);
        });
        if !known {
            trace.unreadable += 1;
            if trace.unreadable_lines.len() < TOLD_LINES {
                trace.unreadable_lines.push(number);
            }
            if trace.unreadable > PASSED_OVER_LINES.max(number / 10) {
                let first = &trace.unreadable_lines;
                return Err(format!(
                    "{} of its first {number} lines cannot be read, first {first:?}",
                    trace.unreadable
                ));
            }
        }
    }
    if trace.requests.is_empty() {
        return Err("it holds no GET that was answered with an object".to_owned());
    }
    straighten(&mut trace.requests);
    Ok(trace)
}

/// The next line without its end, cut where it is too long; `None` at the end.
pub(crate) fn next_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() as u64 >= MAX_LINE_BYTES && line.last() != Some(&b'\n') {
        from.skip_until(b'\n')?;
    }
    while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        line.pop();
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Whether a line is of a form. What is no request for an object is of it all the same, and not passed on.
fn parse(form: Form, line: &str, give: &mut dyn FnMut(Line<'_>)) -> bool {
    match form {
        Form::Log(format) => {
            let Ok(record) = format.parse(line) else { return false };
            let Some(seconds) = possible(record.time_ms as f64 / 1000.0) else { return false };
            if record.method == "GET" {
                let (client, url, referer) = (&record.client, &record.url, record.referer.as_deref());
                let host = url.split('/').nth(2).unwrap_or_default();
                give(Line { seconds, client, host, url, status: record.status, bytes: record.bytes, referer });
            }
            true
        }
        Form::Tabs => {
            let mut fields = line.split('\t');
            let mut next = || fields.next();
            let line = (|| {
                let (seconds, client, host, url) = (seconds(next()?)?, next()?, next()?, next()?);
                let (status, bytes) = (next()?.parse().ok()?, next()?.parse().ok()?);
                let referer = next().filter(|referer| !matches!(*referer, "" | "-"));
                Some(Line { seconds, client, host, url, status, bytes, referer })
            })();
            line.map(give).is_some()
        }
        Form::Commas => {
            let mut fields = line.split(',').map(str::trim);
            let mut next = || fields.next();
            let line = (|| {
                let (seconds, url) = (seconds(next()?)?, next()?);
                let (bytes, client) = (next()?.parse().ok()?, next().unwrap_or_default());
                Some(Line { seconds, client, host: "", url, status: 200, bytes, referer: None })
            })();
            line.map(give).is_some()
        }
    }
}

fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().and_then(possible)
}

/// A time that a request can have been made at: up to the year 33658. `nan` and `inf` are numbers, too.
fn possible(seconds: f64) -> Option<f64> {
    (0.0..1e12).contains(&seconds).then_some(seconds)
}

impl Kept {
    fn keeps(self, line: &Line<'_>) -> bool {
        match self {
            Kept::Answered => true,
            Kept::Static => {
                let is_http = line.url.split_once("://").is_none_or(|(scheme, _)| scheme.eq_ignore_ascii_case("http"));
                is_http && line.status == 200 && !line.url.contains('?') && !line.url.contains("cgi-bin")
            }
        }
    }
}

fn request(line: &Line<'_>) -> Option<Request> {
    if !matches!(line.status, 200 | 203 | 206 | 304) {
        return None;
    }
    let number = |parts: &[&str]| {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        hasher.finish()
    };
    // A log of one site names no hosts in its URLs, and its referers do: what follows the host must do.
    let path = |url: &str| match url.split_once("://").map(|(_, rest)| rest) {
        Some(rest) => rest.find('/').map_or_else(|| "/".to_owned(), |at| rest.get(at..).unwrap_or("/").to_owned()),
        None => url.to_owned(),
    };
    Some(Request {
        time: Duration::try_from_secs_f64(line.seconds).ok()?,
        object: number(&[line.host, &path(line.url)]),
        bytes: line.bytes,
        sent_bytes: line.bytes,
        client: number(&[line.client]),
        referer: line.referer.map(|referer| number(&[line.host, &path(referer)])),
        host: number(&[line.host]),
        stream: 0,
        cachable: true,
    })
}

/// Times from the first request on, never backwards; one size for each object.
fn straighten(requests: &mut [Request]) {
    let mut sizes: HashMap<u64, u64> = HashMap::new();
    for request in requests.iter() {
        let most = sizes.entry(request.object).or_default();
        *most = request.bytes.max(*most);
    }
    let first = requests.first().map(|request| request.time).unwrap_or_default();
    let mut now = Duration::ZERO;
    for request in requests {
        now = now.max(request.time.saturating_sub(first));
        request.time = now;
        request.bytes = sizes.get(&request.object).copied().unwrap_or(request.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ruzstd::encoding::CompressionLevel;

    use super::*;

    fn requests(text: &str) -> Vec<Request> {
        read(text.as_bytes(), Kept::Answered, MAX_REQUESTS).unwrap().requests
    }

    const COMBINED: &str = "10.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a.html HTTP/1.1\" 200 4000 \"-\" \"x\"\n\
        10.0.0.1 - - [10/Oct/2000:13:55:38 +0000] \"GET /a.gif HTTP/1.1\" 200 700 \"http://a.example/a.html\" \"x\"\n\
        10.0.0.2 - - [10/Oct/2000:13:55:37 +0000] \"GET /a.gif HTTP/1.1\" 304 0 \"-\" \"x\"\n\
        10.0.0.2 - - [10/Oct/2000:13:55:39 +0000] \"POST /a.gif HTTP/1.1\" 200 9 \"-\" \"x\"\n";

    #[test]
    fn one_size_an_object_and_time_goes_on() {
        let read = requests(COMBINED);
        assert_eq!(read.iter().map(|request| request.bytes).collect::<Vec<_>>(), [4000, 700, 700]);
        assert_eq!(read.iter().map(|request| request.sent_bytes).collect::<Vec<_>>(), [4000, 700, 0]);
        assert_eq!(read.iter().map(|request| request.time.as_secs()).collect::<Vec<_>>(), [0, 2, 2]);
        assert_eq!((read[1].object, read[1].client == read[0].client), (read[2].object, true));
        assert_eq!(read[1].referer, Some(read[0].object), "a referer is the page that was asked for");
    }

    #[test]
    fn every_form_is_told_by_its_lines() {
        let tabs =
            "951782400\t1\ta.example\t/x\t200\t77\thttp://a.example/\t0\n951782401\t1\ta.example\t/y\t404\t7\t\t0\n";
        let commas = "1,17,500,9\n2.5,18,600,9\n";
        let squid = "951782400.250 12 10.0.0.1 TCP_MISS/200 77 GET http://a.example/x - HIER_DIRECT/- text/html\n";
        let json = "{\"time_ms\":5000,\"method\":\"GET\",\"url\":\"http://a.example/x\",\"status\":200,\"bytes\":77}\n";
        let common = "10.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a.html HTTP/1.1\" 200 77\n";
        for (text, count) in [(tabs, 1), (commas, 2), (squid, 1), (json, 1), (common, 1), (COMBINED, 3)] {
            assert_eq!(requests(text).len(), count, "{text}");
        }
        assert_eq!(requests(tabs)[0].object, requests(&tabs.replace("/x", "http://a.example/x"))[0].object);
    }

    #[test]
    fn nonsense_is_refused_and_bad_lines_are_counted() {
        for bad in ["", "\n\n", "hello\nworld\n", "\u{0}\u{1}", "1,17,500,9\nx\ny\nz\n"] {
            assert!(read(bad.as_bytes(), Kept::Answered, MAX_REQUESTS).is_err(), "{bad:?}");
        }
        let some = format!("{COMBINED}nonsense\n{}\n", "x".repeat(600_000));
        let trace = read(some.as_bytes(), Kept::Answered, MAX_REQUESTS).unwrap();
        assert_eq!((trace.requests.len(), trace.unreadable, trace.cut), (3, 2, false));
        assert_eq!(trace.unreadable_lines, [5, 6]);
        // Numbers, but no times.
        let times = ["1", "2", "3", "4", "5", "6", "nan", "7", "inf", "-1", "1e300"]
            .map(|time| format!("{time},17,500,9\n"))
            .concat();
        let trace = read(times.as_bytes(), Kept::Answered, MAX_REQUESTS).unwrap();
        assert_eq!((trace.requests.len(), trace.unreadable_lines), (7, vec![7, 9, 10, 11]));
        let much = format!("{}{}", COMBINED.repeat(10), "nonsense\n".repeat(1001));
        let why = read(much.as_bytes(), Kept::Answered, MAX_REQUESTS).unwrap_err();
        assert!(why.starts_with("1001 of its first 1041 lines cannot be read, first [41, 42,"), "{why}");
    }

    /// Section 4 of the paper: of these, the first alone.
    #[test]
    fn what_is_made_for_one_request_may_be_left_out() {
        let line = |url: &str, status| format!("1\t1\ta.example\t{url}\t{status}\t77\t\t0\n");
        let urls = ["http://a.example/x", "/x?y", "/cgi-bin/x", "https://a.example/x"];
        let text: String = urls.iter().map(|url| line(url, 200)).chain([line("/y", 304)]).collect();
        let trace = read(text.as_bytes(), Kept::Static, MAX_REQUESTS).unwrap();
        assert_eq!((trace.requests.len(), trace.left_out), (1, 4));
        assert_eq!(requests(&text).len(), 5);
    }

    #[test]
    fn packed_files_are_unpacked_whatever_their_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut packed = flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
        packed.write_all(COMBINED.as_bytes()).unwrap();
        packed.finish().unwrap();
        assert_eq!(read_trace(&path).unwrap().requests.len(), 3);
        // Two frames, one behind the other, as `cat a.zst b.zst` makes them.
        let packed = |text: &str| ruzstd::encoding::compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        let (first, second) = COMBINED.split_at(COMBINED.find('\n').unwrap() + 1);
        let both = [packed(first), packed(second)].concat();
        std::fs::write(&path, &both).unwrap();
        assert_eq!(read_trace(&path).unwrap().requests.len(), 3);
        // As pzstd and seekable files have them, before and behind.
        let skipped = [0x5E, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3];
        std::fs::write(&path, [&skipped[..], &both, &skipped].concat()).unwrap();
        assert_eq!(read_trace(&path).unwrap().requests.len(), 3);
        let mut flipped = both.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for wrong in [&both[..both.len() - 9], &both[..7], &[0x28, 0xB5, 0x2F, 0xFD], &skipped[..9], &flipped] {
            std::fs::write(&path, wrong).unwrap();
            assert!(read_trace(&path).is_err(), "{} bytes", wrong.len());
        }
        std::fs::write(&path, [0x1F, 0x8B, 8, 0, 1, 2, 3]).unwrap();
        assert!(read_trace(&path).unwrap_err().to_string().starts_with("cannot read the requests in"));
        assert!(read_trace(&dir.path().join("none")).is_err());
    }
}
