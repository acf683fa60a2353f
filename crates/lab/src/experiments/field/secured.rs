//! Rows by TLS: memory hits over HTTP/1.1, and over HTTP/2.

use super::contest::{BODY_BYTES, CONNECTIONS, Contest, fresh, scattered, take, take_by};
use super::lines::{Columns, Sample, table};
use crate::error::LabError;
use crate::peers::field::{Pace, Product, Room, Side, Tls, Wanted, over_http2};
use crate::report::Table;

/// Connections over HTTP/2, and requests at once on each: as a few browsers in the middle of a page.
const HTTP2: (usize, usize) = (4, 32);
const FEW: u64 = 100;

/// Both rows, on servers that were started for them; without openssl a table that says so.
pub fn measure(contest: &Contest<'_>) -> Table {
    let title = "Memory hits of 8 KiB by TLS";
    let tls = match Tls::make(&contest.setup.scratch) {
        Ok(tls) => tls,
        Err(why) => return Table::new(title, &["server"]).says(format!("It was not measured: {why}.")),
    };
    let room = Room { disk_bytes: 128 << 20, memory_bytes: 64 << 20 };
    let speaks_tls = |product: &Product| *product != Product::Varnish;
    let servers = contest.found.iter().map(|(product, _)| *product).filter(speaks_tls);
    let mut entrants: Vec<_> =
        servers.map(|product| contest.one(product, room, room.disk_bytes * 2, Some(&tls))).collect();
    let few: Vec<Wanted> = fresh(FEW, BODY_BYTES).collect();
    let requests = contest.setup.choose(10_000, 1500);

    let http1 = contest.rounds(
        &mut entrants,
        |_| None,
        |side, round| {
            warm_up(side, &few, round)?;
            hit(take(side, CONNECTIONS, scattered(&few, requests), Pace::Closed)?)
        },
    );
    let no_http2 = |product| (product == Product::Squid).then_some("it speaks no HTTP/2 to clients");
    let http2 = contest.rounds(&mut entrants, no_http2, |side, round| {
        warm_up(side, &few, round)?;
        hit(take_by(side, || over_http2(side.address(), tls.http2(), scattered(&few, requests), HTTP2))?)
    });
    let says = format!(
        "{} {} The handshakes of {} connections are in the latter. Varnish ends no TLS.",
        http1.sentence("By TLS, a memory hit over HTTP/1.1"),
        http2.sentence("Over HTTP/2 it"),
        HTTP2.0
    );
    let lines = [("HTTP/1.1".to_owned(), &http1), ("HTTP/2".to_owned(), &http2)];
    table(title, Some("over"), &lines, Columns::Plain).says(says)
}

fn warm_up(side: &Side, few: &[Wanted], round: usize) -> Result<(), LabError> {
    let times = if round == 0 { 3 } else { 0 };
    (0..times).try_for_each(|_| side.connections(1)?.run(few.iter().copied(), Pace::Closed).map(drop))
}

/// Errors: too many were none.
fn hit(sample: Sample) -> Result<Sample, LabError> {
    if sample.hits < 0.99 {
        return Err(LabError::failed("asking for what it has", format!("{:.1} % were hits", sample.hits * 100.0)));
    }
    Ok(sample)
}
