//! Requests with one thing wrong, or odd, about them.

use crate::script::text::Names;
use crate::script::{Case, Over, Side};

/// Stands for the origin's authority in requests to a forward proxy; as long as one.
pub const ORIGIN: &str = "127.0.0.1:00000";

/// Requests that are in order, with `@` where a header line may be put.
const SEEDS: [&str; 12] = [
    "GET /a HTTP/1.1\r\n@Host: www.example\r\n\r\n",
    "GET /a?b=c&d=%2F;e HTTP/1.1\r\nHost: www.example\r\n@Accept: */*\r\n\r\n",
    "GET /a HTTP/1.0\r\nHost: www.example\r\n@\r\n",
    "HEAD /a HTTP/1.1\r\nHost: www.example\r\n@\r\n",
    "POST /a HTTP/1.1\r\nHost: www.example\r\n@Content-Length: 5\r\n\r\nhello",
    "PUT /a HTTP/1.1\r\nContent-Length: 0\r\n@Host: www.example\r\n\r\n",
    "DELETE /a HTTP/1.1\r\nHost: www.example\r\n@Content-Length: 2\r\n\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: www.example\r\n@Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: www.example\r\n@\r\n5;x=\"y\"\r\nhello\r\n00a\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: www.example\r\nContent-Length: 41\r\n@\r\nGET /hidden HTTP/1.1\r\nHost: x.example\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: www.example\r\nContent-Length: 3\r\n@\r\nabcGET /b HTTP/1.1\r\nHost: www.example\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: www.example\r\nTransfer-Encoding: chunked\r\n@\r\n3\r\n0\r\n\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: www.example\r\n\r\n",
];

/// Bytes that parsers differ over.
const BYTES: &[u8] = b" \t\r\n\0\x0b\x0c\x1f\x7f\x80\xa0\xff,;:_-+\"'()/\\%#@?0159aAxX";

/// Case files whose rows are header lines, and those whose rows are chunks.
const LINES: [&str; 6] = [
    include_str!("../../cases/h01-both-lengths.case"),
    include_str!("../../cases/h02-mutated-transfer-encoding.case"),
    include_str!("../../cases/h02-one-form-of-chunked.case"),
    include_str!("../../cases/h02-names-that-only-look-alike.case"),
    include_str!("../../cases/h03-content-length.case"),
    include_str!("../../cases/h09-malformed-heads.case"),
];
const CHUNKS: &str = include_str!("../../cases/h04-chunks.case");

/// Header lines that are in order, or nearly.
const PLAIN: [&str; 22] = [
    "Connection: close",
    "Connection: keep-alive, X",
    "X: ",
    "X:y",
    "X:\ty\t",
    "X: \u{e9}",
    "x_y: z",
    "X: ,",
    "X: \"\\\"",
    "Cookie: a=b; c=d",
    "Upgrade: h2c",
    "TE: trailers",
    "Trailer: X",
    "Keep-Alive: 5",
    "Proxy-Connection: close",
    "Connection: content-length",
    "Connection: host",
    "Connection: transfer-encoding",
    "Content-Type: a/b",
    "X-Forwarded-For: 1",
    "Range: bytes=0-",
    "If-None-Match: *",
];

/// A request as clients of this side write it.
pub fn for_side(request: &str, side: Side) -> String {
    match side {
        Side::Reverse => request.to_owned(),
        Side::Forward => [" /a", " /b", " /last"]
            .iter()
            .fold(request.to_owned(), |text, path| {
                text.replace(path, &format!(" http://{ORIGIN}{}", path.trim_start()))
            })
            .replace("www.example", ORIGIN),
    }
}

/// All of them, always the same.
pub fn all(side: Side) -> Vec<Vec<u8>> {
    let mut made: Vec<Vec<u8>> = Vec::new();
    let seeds = SEEDS.map(|seed| for_side(seed, side));
    let seeds = seeds.each_ref().map(String::as_str);
    for seed in seeds {
        made.push(with_line(seed, b""));
        PLAIN.iter().for_each(|line| made.push(with_line(seed, format!("{line}\r\n").as_bytes())));
    }
    for row in LINES.iter().flat_map(|case| rows(case)) {
        let line = [row, b"\r\n".to_vec()].concat();
        made.push(with_line(seeds[0], &line));
        made.push(with_line(seeds[6], &line));
    }
    let chunked = "POST /a HTTP/1.1\r\nHost: www.example\r\nTransfer-Encoding: chunked\r\n\r\n@\r\n\r\n";
    let chunked = for_side(chunked, side);
    made.extend(rows(CHUNKS).iter().map(|row| with_line(&chunked, row)));
    let mut dice = Dice(0x7196_a5e1);
    for seed in seeds {
        let plain = with_line(seed, b"");
        for _ in 0..40 {
            let (at, byte) = (dice.below(plain.len()), BYTES[dice.below(BYTES.len())]);
            made.push([&plain[..at], &[byte], &plain[at..]].concat());
            let (at, byte) = (dice.below(plain.len()), BYTES[dice.below(BYTES.len())]);
            made.push([&plain[..at], &[byte], &plain[at + 1..]].concat());
        }
        for _ in 0..15 {
            let at = dice.below(plain.len());
            made.push([&plain[..at], &plain[at + 1..]].concat());
        }
    }
    made
}

fn with_line(seed: &str, line: &[u8]) -> Vec<u8> {
    let (before, behind) = seed.split_once('@').unwrap();
    [before.as_bytes(), line, behind.as_bytes()].concat()
}

/// The first column of each row of a case.
fn rows(case: &str) -> Vec<Vec<u8>> {
    let case = Case::parse(case, Over::Http1).unwrap();
    let host = "www.example".to_owned();
    let (origin, other, proxy) = (host.clone(), host.clone(), host);
    let names = Names { side: Side::Reverse, origin, other, proxy, number: 0, row: &[] };
    case.rows.iter().map(|row| names.expand(&row[0]).unwrap()).filter(|row| row.len() < 8000).collect()
}

/// Numbers that look random, the same in each run (Marsaglia's xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}
