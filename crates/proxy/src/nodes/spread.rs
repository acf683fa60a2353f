//! A ban on all nodes; what they ask here; and meetings.
//!
//! In a meeting a node has another one begin a new number. What that one stamps from then on was asked for after all bans that the first one had then, so the first
//! one knows what the other's stamps are worth ([`crate::bans`]). Being told of a ban does for a meeting.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tinaja_clock::Clock;
use tokio::select;
use tokio::task::JoinSet;

use super::known::Heard;
use super::{Nodes, OtherNode};
use crate::bans::{BanError, Bans, Rule, answer_bytes, answer_of};

/// How often it is looked who is there, and who is to be told something again.
const EVERY: Duration = Duration::from_millis(250);
/// How often a node that has just started looks for others before it purges.
const LOOK: Duration = Duration::from_millis(50);
/// How long it does so, at most; and how long another node may take to answer, whatever carries the question.
const PATIENCE: Duration = Duration::from_secs(12);
/// Questions of others that are worked on at once. Bans are written down one after the other all the same.
const MOST_AT_ONCE: usize = 16;
/// How often those that have come meanwhile are asked, for one ban. More come only if something is wrong, and they are named.
const MOST_ROUNDS: usize = 8;

/// Bans what fits one of these rules on all nodes, and returns once it is on all their disks. Takes some 12 s where a node does not answer, and as long
/// again where this one has just started and found nobody yet, or nodes keep coming. Once it has begun it goes on, whoever stops waiting for it.
///
/// Errors: [`BanError`]; after [`BanError::Elsewhere`] it holds here, and after the others nowhere.
pub(crate) async fn ban_everywhere(
    bans: &Arc<Bans>,
    nodes: Option<&Arc<Nodes>>,
    clock: &Clock,
    rules: Vec<Rule>,
    soft: bool,
) -> Result<(), BanError> {
    let (bans, clock) = (bans.clone(), clock.clone());
    let Some(nodes) = nodes.cloned() else {
        let now = clock.wall();
        return clock.block(move || bans.ban(rules, soft, now)).await.unwrap_or(Err(BanError::Away)).map(drop);
    };
    // Clients that leave do not leave any number of them behind.
    let turn = nodes.turns.clone().acquire_owned().await.map_err(|_| BanError::Away)?;
    let spreading = clock.clone().start(async move {
        let done = nodes.spread(&bans, &clock, rules, soft).await;
        drop(turn);
        done
    });
    spreading.await.unwrap_or(Err(BanError::Away))
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
    loop {
        let there = nodes.who_is_there(&clock);
        let to_be_heard = bans.to_be_seen();
        for other in there {
            let begun = nodes.known.lock().begin(other.id, to_be_heard, clock.now());
            let Some((owed, is_to_be_met)) = begun else { continue };
            let telling = Telling { nodes: nodes.clone(), clock: clock.clone(), id: other.id, went_well: false };
            meeting.spawn(telling.catch_up(bans.clone(), other, owed, to_be_heard.filter(|_| is_to_be_met)));
        }
        while meeting.try_join_next().is_some() {}
        select! {
            () = nodes.changed.notified() => {}
            () = clock.timer(EVERY) => {}
        }
    }
}

/// A node is being told something. Dropped, however that ended: it may be told more, at once if all went well, and else after a while.
struct Telling {
    nodes: Arc<Nodes>,
    clock: Clock,
    id: u64,
    went_well: bool,
}

impl Telling {
    async fn catch_up(mut self, bans: Arc<Bans>, other: OtherNode, owed: VecDeque<Bytes>, to_be_heard: Option<Heard>) {
        match self.nodes.catch_up(&bans, &self.clock, &other, owed, to_be_heard).await {
            Ok(()) => self.went_well = true,
            Err(why) => tracing::debug!(node = other.name, why, "a node was not met, and is again"),
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.nodes.known.lock().end(self.id, self.went_well, self.clock.now());
        if self.went_well {
            // There may be more by now.
            self.nodes.changed.notify_one();
        }
    }
}

impl Nodes {
    /// See [`ban_everywhere`].
    async fn spread(
        self: &Arc<Nodes>,
        bans: &Arc<Bans>,
        clock: &Clock,
        rules: Vec<Rule>,
        soft: bool,
    ) -> Result<(), BanError> {
        let now = clock.wall();
        let told = bans.told(&rules, soft, now)?;
        let own = bans.clone();
        let stamp = clock.block(move || own.ban(rules, soft, now)).await.unwrap_or(Err(BanError::Away))?;
        let heard = bans.to_be_seen().map(|(takes, _)| (takes, stamp));
        let mut others = self.tell_all(bans, clock, &told).await?;
        let (mut asked, mut not) = (HashSet::new(), Vec::new());
        // Nobody that comes while others are asked is left out, or the answer would be of those alone that were there when it began.
        for _ in 0..MOST_ROUNDS {
            asked.extend(others.iter().map(|other| other.id));
            not.extend(self.ask_all(bans, clock, others, &told, heard).await?);
            others = self.who_is_there(clock);
            others.retain(|other| !asked.contains(&other.id));
            // One that is gone may only have stopped for a moment: before it goes on it must have been away for long enough to notice.
            let noticed = self.known.lock().has_noticed().filter(|noticed| clock.now() < *noticed);
            if let (true, Some(noticed)) = (others.is_empty(), noticed) {
                clock.timer_until(noticed).await;
                others = self.who_is_there(clock);
                others.retain(|other| !asked.contains(&other.id));
            }
            if others.is_empty() {
                break;
            }
        }
        // They are owed it, as it is recent.
        not.extend(others.into_iter().map(|other| format!("{}, as it has only just come", other.name)));
        self.changed.notify_one();
        not.sort();
        if not.is_empty() { Ok(()) } else { Err(BanError::Elsewhere(not.join("; "))) }
    }

    /// Tells them all at once. Who has not confirmed it, and why; those are owed it.
    async fn ask_all(
        self: &Arc<Nodes>,
        bans: &Arc<Bans>,
        clock: &Clock,
        others: Vec<OtherNode>,
        told: &Bytes,
        heard: Option<Heard>,
    ) -> Result<Vec<String>, BanError> {
        let mut asked = JoinSet::new();
        for other in others {
            let (nodes, bans, clock, told) = (self.clone(), bans.clone(), clock.clone(), told.clone());
            asked.spawn(async move {
                let done = nodes.say(&bans, &clock, &other, told, heard).await;
                (other, done)
            });
        }
        let (mut not, all) = (Vec::new(), everything(bans)?);
        while let Some(answered) = asked.join_next().await {
            let Ok((other, done)) = answered else { continue };
            match done {
                Ok(_) => self.known.lock().was_told(other.id, told),
                Err(why) => {
                    not.push(format!("{}, as {why}", other.name));
                    self.known.lock().owe(other.id, told.clone(), &all);
                }
            }
        }
        Ok(not)
    }

    /// Who is there now; who is new is owed what was told lately.
    fn who_is_there(&self, clock: &Clock) -> Vec<OtherNode> {
        let there = (self.others)().nodes;
        self.known.lock().are_there(&there, clock.now());
        there
    }

    /// Tells one all that it is owed, and then meets it if it is to have heard so far.
    ///
    /// Errors: why it goes no further.
    async fn catch_up(
        &self,
        bans: &Bans,
        clock: &Clock,
        other: &OtherNode,
        owed: VecDeque<Bytes>,
        to_be_heard: Option<Heard>,
    ) -> Result<(), String> {
        for told in owed {
            self.say(bans, clock, other, told.clone(), None).await?;
            self.known.lock().was_told(other.id, &told);
        }
        if to_be_heard.is_some() && !self.say(bans, clock, other, bans.meeting(), to_be_heard).await? {
            return Err("it numbers purges by the book of another node".to_owned());
        }
        Ok(())
    }

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

    /// Says something to one of them. What it stamps from now on has seen the own bans up to `heard`; whether that is believed, as no other node has its book.
    ///
    /// Errors: why it has not done it.
    async fn say(
        &self,
        bans: &Bans,
        clock: &Clock,
        other: &OtherNode,
        told: Bytes,
        heard: Option<Heard>,
    ) -> Result<bool, String> {
        let answer = clock.timeout(PATIENCE, (self.ask)(other.id, told)).await.ok().flatten();
        let stamp = answer_of(&answer.ok_or("it did not answer")?)?;
        let Some(heard) = heard else { return Ok(true) };
        let is_believed = self.known.lock().has_heard(other.id, heard, stamp.book());
        if is_believed {
            bans.note_seen(stamp, heard.1);
        } else {
            bans.forget_seen(stamp.book());
        }
        Ok(is_believed)
    }
}

#[cfg(test)]
#[path = "spread_tests.rs"]
mod tests;
