//! How it was measured, and why it differs from the paper.

use super::super::reads::Costs;
use super::claims::{All, MISS_COSTS, SMALL_AS_BCC};
use super::shown::trace;
use super::spent::On;
use super::why::{AS_IT_IS, Pair};
use super::{Case, MEASURED, NODE_BYTES, SHORT, SMALL_BYTES, WARM_UP, WORKING_SET};
use crate::experiment::Setup;

/// How it was measured.
pub fn measured(setup: &Setup, costs: &Costs) -> Vec<String> {
    vec![
        format!(
            "{WORKING_SET} objects, all as likely, {} requests of each proxy to warm up and then {} of all that are counted, in nodes of {} MB of payload each; {HEADER} bytes of header a slot and {BUFFERS} slots for what is on its way lie beside. \
             Each node is a process; {}. What was fetched is compared with what it should be, byte by byte.{}",
            setup.choose(WARM_UP.0, WARM_UP.1),
            setup.choose(MEASURED.0, MEASURED.1),
            NODE_BYTES >> 20,
            match crate::peers::needs_root() {
                Ok(()) => "each is in a network namespace of its own without a network, so that UCX's shared memory alone connects them",
                Err(_) => "without root they share the machine's network, and UCX reads by shared memory",
            },
            if setup.quick { format!(" In short: of objects and memory one of {SHORT}.") } else { String::new() },
            HEADER = tinaja_cluster::slots::HEADER_BYTES,
            BUFFERS = tinaja_cluster::limits::BUFFER_SLOTS,
        ),
        "There is no HTTP in this: a request is a fetch by a node, and a miss stores the object half a millisecond later. Ten processes share this machine's processors, so that \
         requests a second say nothing of ten machines; counts do."
            .to_owned(),
        format!(
            "The model runs the same nodes in virtual time, with one processor each, and 16 clients a proxy that ask again at once. A node's own code takes what it takes while it \
             runs; an answer by HTTP {:.1} us at 8 KiB and {:.1} at 64, a read {:.2} and {:.2}, a message {:.1} to send and {:.1} to receive (ten come before the receiver sleeps), as measured before on this machine; it is there after 5 us. A miss takes \
             1.5, 3 or 6 answers of its proxy's processor. Reads are those of shared memory, which cost less than InfiniBand's did. As processor time is measured while it runs, no two runs give quite the \
             same figures.",
            costs.serve_us(8 << 10),
            costs.serve_us(64 << 10),
            costs.read_us(8 << 10),
            costs.read_us(64 << 10),
            costs.send_us,
            costs.receive_us
        ),
        "A scheme is worth what its hits save and its bookkeeping costs. Where a miss costs little more than a hit, hardly anything is saved. The paper says neither what a miss \
         cost there nor which objects HYBCC takes for small; 8 KiB and less are small here."
            .to_owned(),
    ]
}

/// Why it is not as in the paper, by what was counted; what was not run is left out.
pub fn reasons(setup: &Setup, cases: &[Case], all: &All<'_>, pairs: &[Pair]) -> Vec<String> {
    [swaps(setup, cases, pairs), passive(cases), behind(all)].into_iter().flatten().collect()
}

/// Why CCWR gains less where it exchanges objects.
fn swaps(setup: &Setup, cases: &[Case], pairs: &[Pair]) -> Option<String> {
    let as_they_are = || pairs.iter().filter(|pair| pair.what == AS_IT_IS);
    let pair = as_they_are().next_back()?;
    let (bytes, proxies) = (pair.bcc.bytes, pair.bcc.proxies);
    let case = |scheme| cases.iter().find(|one| (one.scheme, one.bytes, one.proxies) == (scheme, bytes, proxies));
    let (bcc, ccwr) = (case("BCC")?, case("CCWR")?);
    let (modelled_bcc, modelled_ccwr) = pair.last()?;
    let more = |on| modelled_ccwr.on(on) - modelled_bcc.on(on);
    // In short there is less of both.
    let share = setup.choose(1, SHORT) as f64;
    let mb = |case: &Case, of: &str| case.count(of) as f64 / 1e6;
    let rejected = |case: &Case| {
        let reads = case.count("remote") + case.count("metadata reads") + case.count("taken");
        100.0 * case.count("rejected") as f64 / reads.max(1) as f64
    };
    let smaller = as_they_are().filter(|pair| pair.bcc.bytes < bytes).filter_map(|pair| {
        let swapped = pair.last()?.1.swapped_percent;
        Some(format!("{swapped:.1} at {}", trace(pair.bcc.bytes)))
    });
    let smaller: Vec<String> = smaller.collect();
    let level = pair.level_at().map_or("no cost of a miss makes up for that".to_owned(), |at| {
        format!("that is as much as its hits save where a miss costs {at:.1} answers")
    });
    Some(format!(
        "CCWR over BCC, {} on {proxies} proxies: the objects take {:.0} MB, and the proxies lend {:.0}. CCWR leaves {:.1} MB of duplicates there (BCC {:.1}). So no slot is free or redundant, and what is read from another node is exchanged for an own object: \
         {:.1} swaps of 100 requests, of {:.1} that another node answers; modelled, {}. A swap takes three messages, a second read of an object, and the other node's processor, which verifies that object and copies it into a slot. \
         The paper says of what CCWR costs that it does not grow with an object's size: there network cards move the bytes and nobody verifies them. Here processors do both. Counted: {:.0} MB read from others (BCC {:.0}), {:.2} messages a request ({:.2}), {:.2} of 100 reads rejected ({:.2}). \
         Modelled: CCWR pays {:.1} us a request more than BCC for its own requests, {:.1} for what others send and {:.1} for the tables, and finds {:.1} of 100 requests more; {level}. The proxies' processors are busy {:.1} % of the time (BCC {:.1}), so that nothing waits for anything else.",
        trace(bytes),
        WORKING_SET as f64 / share * f64::from(bytes) / 1e6,
        (proxies * NODE_BYTES) as f64 / share / 1e6,
        mb(ccwr, "duplicate bytes"),
        mb(bcc, "duplicate bytes"),
        ccwr.percent("swapped"),
        ccwr.percent("remote"),
        smaller.join(", "),
        mb(ccwr, "read bytes"),
        mb(bcc, "read bytes"),
        ccwr.messages(),
        bcc.messages(),
        rejected(ccwr),
        rejected(bcc),
        more(On::Requests),
        more(On::Others),
        more(On::Tables),
        modelled_ccwr.found_percent - modelled_bcc.found_percent,
        modelled_ccwr.busy_percent,
        modelled_bcc.busy_percent,
    ))
}

/// Why MTACC does not cost more than CCWR where proxies have room for everything.
fn passive(cases: &[Case]) -> Option<String> {
    let (bytes, proxies) = (8 << 10, 8);
    let case = |scheme| cases.iter().find(|one| (one.scheme, one.bytes, one.proxies) == (scheme, bytes, proxies));
    let (ccwr, mtacc) = (case("CCWR")?, case("MTACC")?);
    Some(format!(
        "MTACC over CCWR, {} on {proxies} proxies: the paper has more nodes make each look-up dearer. Here a look-up is one read of one bucket, however many nodes there are, and passive nodes have none of them. Where the proxies have room for everything \
         nothing goes to a passive node either, and both schemes do the same: of 100 requests MTACC and CCWR find {:.2} and {:.2}, read {:.1} and {:.1} buckets, swap {:.2} and {:.2} and push {:.2} and {:.2}, with {:.2} and {:.2} messages a request. What is left \
         is the difference between two measurements of the same work.",
        trace(bytes),
        100.0 - mtacc.percent("misses"),
        100.0 - ccwr.percent("misses"),
        mtacc.percent("metadata reads"),
        ccwr.percent("metadata reads"),
        mtacc.percent("swapped"),
        ccwr.percent("swapped"),
        mtacc.percent("pushes"),
        ccwr.percent("pushes"),
        mtacc.messages(),
        ccwr.messages(),
    ))
}

/// Where HYBCC is not the best, and what is.
fn behind(all: &All<'_>) -> Option<String> {
    let worst = MISS_COSTS.iter().enumerate().filter_map(|(cost, answers)| {
        let (one, best) = all.furthest_behind(SMALL_AS_BCC, cost)?;
        let (own, other) = (one.by_cost.get(cost)?, best.by_cost.get(cost)?);
        // Of large objects both say the same.
        let is_the_same = best.scheme == "MTACC" && one.bytes > SMALL_BYTES;
        let why = if is_the_same { "; its rules are the same there, so that is how far two measurements differ" } else { "" };
        Some(format!(
            "where a miss costs {answers} answers, by {:.1} % behind {} at {} on {} proxies (finds {:.1} of 100 requests and pays {:.1} us for each but for HTTP and misses; {} {:.1} and {:.1}{why})",
            100.0 * (1.0 - own.per_second / other.per_second),
            best.scheme,
            trace(one.bytes),
            one.proxies,
            own.found_percent,
            own.own_us(),
            best.scheme,
            other.found_percent,
            other.own_us(),
        ))
    });
    let worst: Vec<String> = worst.collect();
    (!worst.is_empty()).then(|| {
        format!(
            "HYBCC (small as BCC) is furthest behind the best scheme {}. It is behind one that finds less where what it finds more saves less than moving objects takes; and behind one that finds more where small objects, as BCC has them, leave duplicates in the place of others.",
            worst.join("; ")
        )
    })
}
