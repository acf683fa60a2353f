//! A ban on all nodes; what they ask here; and meetings.
//!
//! In a meeting a node has another one begin a new number. What that one stamps from then on was asked for after all bans that the first one had then, so the first
//! one knows what the other's stamps are worth ([`crate::bans`]). Being told of a ban does for a meeting.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tinaja_clock::Clock;
use tokio::select;
use tokio::task::JoinSet;

use super::known::Heard;
use super::{Nodes, OtherNode};
use crate::bans::{BanError, Bans, Rule, Stamp, answer_bytes, answer_of};

/// How often it is looked who is there, and who is to be told something again.
const EVERY: Duration = Duration::from_millis(250);
/// How often a node that has just started looks for others before it purges.
const LOOK: Duration = Duration::from_millis(50);
/// How long it does so, at most; and how long another node may take to answer, whatever carries the question.
const PATIENCE: Duration = Duration::from_secs(12);
/// Questions of others that are worked on at once. Bans are written down one after the other all the same.
const MOST_AT_ONCE: usize = 16;

/// Bans what fits one of these rules on all nodes, and returns once it is on all their disks. Takes some 12 s where a node does not answer, and as long
/// again where this one has just started and found nobody yet.
///
/// Errors: [`BanError`]; after [`BanError::Elsewhere`] it holds here, and after the others nowhere.
pub(crate) async fn ban_everywhere(
    bans: &Arc<Bans>,
    nodes: Option<&Arc<Nodes>>,
    clock: &Clock,
    rules: Vec<Rule>,
    soft: bool,
) -> Result<(), BanError> {
    let now = clock.wall();
    let told = nodes.map(|_| bans.told(&rules, soft, now)).transpose()?;
    let own = bans.clone();
    let stamp = clock.block(move || own.ban(rules, soft, now)).await.unwrap_or(Err(BanError::Away))?;
    let (Some(nodes), Some(told)) = (nodes, told) else { return Ok(()) };
    let heard = bans.to_be_seen().map(|(takes, _)| (takes, stamp));
    let others = nodes.tell_all(bans, clock, &told).await?;
    let mut asked = JoinSet::new();
    for other in others {
        let (nodes, bans, clock, told) = (nodes.clone(), bans.clone(), clock.clone(), told.clone());
        asked.spawn(async move { nodes.say(&bans, &clock, &other, told, heard).await.map_err(|why| (other, why)) });
    }
    let mut not = Vec::new();
    while let Some(answered) = asked.join_next().await {
        if let Ok(Err((other, why))) = answered {
            not.push(format!("{}, as {why}", other.name));
            nodes.known.lock().owe(other.id, told.clone(), &everything(bans)?);
        }
    }
    nodes.changed.notify_one();
    // One that is gone may only have stopped for a moment: before it goes on it must have been away for long enough to notice.
    let there = (nodes.others)().nodes;
    let noticed = {
        let mut known = nodes.known.lock();
        known.are_there(&there, clock.now());
        known.has_noticed()
    };
    if let Some(noticed) = noticed.filter(|noticed| clock.now() < *noticed) {
        clock.timer_until(noticed).await;
    }
    not.sort();
    if not.is_empty() { Ok(()) } else { Err(BanError::Elsewhere(not.join("; "))) }
}

/// What bans everything.
fn everything(bans: &Bans) -> Result<Bytes, BanError> {
    bans.told(&[Rule::All], false, std::time::UNIX_EPOCH)
}

/// Answers what other nodes say, until it is dropped.
pub(crate) async fn answer_nodes(nodes: Arc<Nodes>, bans: Arc<Bans>, clock: Clock) {
    let mut calls = nodes.calls.lock().await;
    let mut answering = JoinSet::new();
    while let Some((told, answer)) = calls.recv().await {
        let (nodes, bans, clock) = (nodes.clone(), bans.clone(), clock.clone());
        answering.spawn(async move {
            let now = clock.wall();
            let heard = clock.block(move || bans.hear(&told, now)).await;
            let heard = heard.unwrap_or_else(|_| Err("it is stopping".to_owned()));
            // Whoever asked may have gone.
            let _ = answer.send(answer_bytes(&heard));
            nodes.changed.notify_one();
        });
        while answering.len() >= MOST_AT_ONCE {
            answering.join_next().await;
        }
        while answering.try_join_next().is_some() {}
    }
}

/// Meets each node that has not heard of the newest ban, and tells each what it is owed, until it is dropped.
pub(crate) async fn keep_meeting(nodes: Arc<Nodes>, bans: Arc<Bans>, clock: Clock) {
    let mut meeting = JoinSet::new();
    // One that was ended before this one has left nobody to end what it had begun.
    nodes.known.lock().end_all();
    loop {
        let there = (nodes.others)().nodes;
        nodes.known.lock().are_there(&there, clock.now());
        let to_be_heard = bans.to_be_seen();
        for other in there {
            let Some((owed, is_to_be_met)) = nodes.known.lock().begin(other.id, to_be_heard) else { continue };
            let (nodes, bans, clock) = (nodes.clone(), bans.clone(), clock.clone());
            meeting.spawn(async move {
                let mut goes = true;
                for told in owed {
                    goes = nodes.say(&bans, &clock, &other, told.clone(), None).await.is_ok();
                    if !goes {
                        break;
                    }
                    nodes.known.lock().was_told(other.id, &told);
                }
                if goes && is_to_be_met {
                    let why_not = nodes.say(&bans, &clock, &other, bans.meeting(), to_be_heard).await.err();
                    why_not.inspect(|why| tracing::debug!(node = other.name, why, "a node was not met, and is again"));
                }
                nodes.known.lock().end(other.id);
                if goes {
                    // There may be more by now.
                    nodes.changed.notify_one();
                }
            });
        }
        while meeting.try_join_next().is_some() {}
        select! {
            () = nodes.changed.notified() => {}
            () = clock.timer(EVERY) => {}
        }
    }
}

impl Nodes {
    /// Who is to be told of a ban; whoever comes later is told of it then. A node that has just started looks for others first.
    async fn tell_all(&self, bans: &Bans, clock: &Clock, told: &Bytes) -> Result<Vec<OtherNode>, BanError> {
        let (until, all) = (clock.now() + PATIENCE, everything(bans)?);
        loop {
            let others = (self.others)();
            let is_alone = others.is_young && others.nodes.is_empty();
            if !is_alone || clock.now() >= until {
                let mut known = self.known.lock();
                known.are_there(&others.nodes, clock.now());
                known.tell(told.clone(), clock.now(), &all);
                return Ok(others.nodes);
            }
            clock.timer(LOOK).await;
        }
    }

    /// Says something to one of them. What it stamps from now on has seen the own bans up to `heard`.
    ///
    /// Errors: why it has not done it.
    async fn say(
        &self,
        bans: &Bans,
        clock: &Clock,
        other: &OtherNode,
        told: Bytes,
        heard: Option<Heard>,
    ) -> Result<Stamp, String> {
        let answer = clock.timeout(PATIENCE, (self.ask)(other.id, told)).await.ok().flatten();
        let stamp = answer_of(&answer.ok_or("it did not answer")?)?;
        if let Some(heard) = heard {
            bans.note_seen(stamp, heard.1);
            self.known.lock().has_heard(other.id, heard);
        }
        Ok(stamp)
    }
}
