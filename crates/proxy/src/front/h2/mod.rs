//! A connection over HTTP/2 (RFC 9113): each stream is a request of its own.
//!
//! - `mod`: the connection's task: it moves frames, hands out streams, and ends the connection in time
//! - `stream`: one stream's request, from its head to its end
//! - `behind`: what waits for a slow client beside its requests
//! - `wire`, `meter`: the bytes, and the frames counted as they come; `limits`: how many are too many
//!
//! # Decisions
//!
//! - Frames are counted on their way to `h2`, which does not show them: endless PING or SETTINGS frames cost a client
//!   nothing, and `h2` bounds only some of them.
//! - A stream is polled once where it was accepted: a plain hit is over then, and needs no task of its own, no wake-up and no timer. What
//!   has to wait for anything becomes a task, and holds no other stream up.
//! - What is sent is encrypted at once and written when all that has come is dealt with, so that the answers of many streams go out in
//!   one call. `h2` asks for a flush behind each DATA frame; the connection's task does it instead.
//! - Answers that `h2` has taken are over for their requests. As long as a client takes them, its connection is not idle, whatever is
//!   going on: what waits is in the budget of clients, and further requests wait too once it is much.
//! - When the proxy hands over, GOAWAY names no last stream until nothing has come for two seconds, and `h2` does not see the
//!   client's answer to its PING. Clients answer a PING before they send what they have begun, and `h2` would name the last
//!   stream at that answer: one request in some ten thousand had to be sent again.

mod behind;
mod limits;
mod meter;
mod stream;
mod wire;

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ::h2::server::{Connection, SendResponse};
use ::h2::{Reason, RecvStream};
use bytes::BytesMut;
use http::Request;
use tinaja_clock::Clock;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(super) use meter::PREFACE;

use super::{Caller, Front, stopped};
use crate::boxed::boxed;
use crate::client::Queued;
use crate::crowd::Crowd;
use crate::held::{HTTP2_BYTES, Kept};
use crate::limits::Limits;
use crate::stream::Stream;
use behind::Behind;
use limits::{IN_A_ROW, builder};
use wire::{Watch, Wire};

/// A connection without streams that was told to end has so long to say that it has heard, and to end.
const FAREWELL: Duration = Duration::from_secs(2);

type Accepted = Option<Result<(Request<RecvStream>, SendResponse<Queued>), ::h2::Error>>;

/// What happens next on a connection. It lives on the stack for one turn of the loop, so its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Event {
    /// A stream was opened, the connection failed, or it is over.
    Accepted(Accepted),
    /// The client sends more than it may of something.
    Flood(limits::Flood),
    /// Nothing has happened for too long.
    Late,
    /// One stream's task has ended; whether it panicked.
    Ended(bool),
    /// It has no streams, and others need what it holds.
    LetGo,
    /// Answers that were over for their requests are with the client.
    Sent,
    /// Such answers wait, and the client takes nothing of them.
    Stalled,
    /// A request has content.
    Content,
    /// Nothing more can be sent.
    Broken(io::Error),
    /// The proxy stops.
    Stop,
}

/// How far a connection is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// GOAWAY was sent: the streams that there are go on.
    Leaving,
    /// It ends without waiting for anything.
    Cut,
}

struct Session {
    connection: Connection<Wire, Queued>,
    watch: Watch,
    tasks: JoinSet<()>,
    phase: Phase,
    /// When something last happened.
    last: Instant,
    clock: Clock,
    behind: Behind,
}

impl Front {
    /// Serves a connection that began with the connection preface, which `ahead` holds again, to its end.
    pub(super) async fn http2(
        self: &Arc<Self>,
        stream: Stream,
        ahead: BytesMut,
        caller: Caller,
        mut kept: Kept,
        stopping: &watch::Receiver<bool>,
    ) {
        if !caller.neighbour && !kept.more(HTTP2_BYTES) {
            return;
        }
        let clock = &self.shared.clock;
        let began = clock.now();
        let (wire, watch) = Wire::new(stream, ahead, caller.neighbour, clock);
        let limits = &self.shared.limits;
        let handshake = builder(limits.streams, caller.neighbour).handshake(wire);
        let Ok(Ok(connection)) = clock.timeout(limits.head, handshake).await else { return };
        watch.hold_back();
        let (tasks, phase, last, clock) = (JoinSet::new(), Phase::Open, clock.now(), clock.clone());
        let behind = Behind::new(&self.shared.held, caller.neighbour, limits.client_stall, clock.now());
        let mut session = Session { connection, watch, tasks, phase, last, clock, behind };
        let mut stop = pin!(stopped(stopping.clone()));
        // The connection's own place in the crowd is good for one stream.
        let own = Crowd::new(1);
        loop {
            let sending = session.is_sending();
            if session.tasks.is_empty() && !sending {
                session.behind.give_back(&mut kept);
            }
            let waiting = Waiting {
                alone: sending,
                streams: session.tasks.len(),
                full: session.tasks.len() >= limits.streams as usize,
                until: deadline(limits, &session),
                head: (session.phase != Phase::Cut).then_some(limits.head),
            };
            let idle = (session.tasks.is_empty() && !sending).then_some(&mut kept);
            let event = tokio::select! {
                biased;
                () = &mut stop, if session.phase == Phase::Open => Event::Stop,
                Some(ended) = session.tasks.join_next(), if !session.tasks.is_empty() => {
                    Event::Ended(ended.is_err_and(|error| error.is_panic()))
                }
                event = unless_let_go(
                    idle,
                    next(&mut session.connection, (&session.watch, &session.clock), &mut session.behind, waiting),
                ) => event,
            };
            match event {
                Event::Accepted(Some(Ok((request, respond)))) => {
                    let place = own.enter().or_else(|| self.crowd.enter());
                    let (front, caller) = (self.clone(), caller.clone());
                    let respond = (respond, session.behind.queue.clone());
                    session.last = session.clock.now();
                    let began = session.last;
                    session.carry_out(|| front.stream((request, began), respond, caller, place));
                    session.behind.in_a_row += 1;
                    if session.behind.in_a_row >= IN_A_ROW {
                        session.behind.in_a_row = 0;
                        others_first().await;
                    }
                }
                Event::Accepted(Some(Err(error))) => {
                    if error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM) {
                        self.log_flood(caller.address, began, "http2-calm");
                    }
                    tracing::debug!(%error, "a connection over HTTP/2 failed");
                    break;
                }
                Event::Accepted(None) => break,
                Event::Flood(flood) => {
                    self.log_flood(caller.address, began, flood.name());
                    session.cut(Reason::ENHANCE_YOUR_CALM);
                }
                Event::Stop => {
                    if !*self.shared.ending.borrow() {
                        // There is time: the last stream is named once nothing has come for a while.
                        session.watch.hide_pongs();
                    }
                    session.leave();
                }
                Event::Ended(panicked) => {
                    session.watch.stream_ended(session.tasks.len() + 1);
                    session.ended(panicked);
                }
                Event::Broken(error) => {
                    tracing::debug!(%error, "a connection over HTTP/2 failed");
                    break;
                }
                Event::LetGo => {
                    session.watch.abandon();
                    break;
                }
                Event::Sent => session.last = session.clock.now(),
                Event::Stalled => {
                    tracing::debug!("a client over HTTP/2 took nothing of its answers for too long");
                    session.watch.abandon();
                    break;
                }
                Event::Content if caller.neighbour => {}
                Event::Content => match session.behind.take_content(&mut kept) {
                    Some(window) => session.connection.set_target_window_size(window),
                    None => break,
                },
                Event::Late => match session.phase {
                    Phase::Open => session.leave(),
                    Phase::Leaving => session.cut(Reason::NO_ERROR),
                    Phase::Cut => break,
                },
            }
        }
        // Requests end by themselves once nobody is there to be answered; those of a stopped proxy are cut off by it.
        let Session { connection, mut tasks, .. } = session;
        drop(connection);
        while tasks.join_next().await.is_some() {}
    }
}

impl Session {
    /// Whether nothing is going on but that the client takes answers which are over for their requests.
    fn is_sending(&self) -> bool {
        self.phase != Phase::Cut && self.tasks.is_empty() && is_sending(&self.connection, &self.watch)
    }

    /// Carries a stream's request out: at once, as far as it has to wait for nothing.
    fn carry_out<F: Future<Output = ()> + Send + 'static>(&mut self, request: impl FnOnce() -> F) {
        let mut request = boxed(request);
        // Nobody need be woken: what becomes a task is polled again at once.
        let mut nobody = Context::from_waker(Waker::noop());
        match catch_unwind(AssertUnwindSafe(|| request.as_mut().poll(&mut nobody))) {
            Ok(Poll::Ready(())) => {}
            Ok(Poll::Pending) => drop(self.tasks.spawn(request)),
            Err(_) => self.ended(true),
        }
    }

    /// A stream's request is over.
    fn ended(&mut self, panicked: bool) {
        if panicked {
            tracing::error!("a request panicked; its stream was reset, and the others go on");
        }
        self.last = self.clock.now();
    }

    /// Takes no further streams.
    fn leave(&mut self) {
        self.connection.graceful_shutdown();
        (self.phase, self.last) = (Phase::Leaving, self.clock.now());
    }

    fn cut(&mut self, reason: Reason) {
        self.connection.abrupt_shutdown(reason);
        (self.phase, self.last) = (Phase::Cut, self.clock.now());
    }
}

struct Waiting {
    /// Nothing but what the client has to take is waited for.
    alone: bool,
    /// So many requests are being carried out.
    streams: usize,
    /// As many requests are being carried out as may be: no more are taken.
    full: bool,
    /// When the connection has been left alone for too long.
    until: Option<Instant>,
    /// How long a header block may take, on a connection that is not being cut off.
    head: Option<Duration>,
}

/// Whether `h2` or the wire has something that the client has not taken.
fn is_sending(connection: &Connection<Wire, Queued>, watch: &Watch) -> bool {
    connection.has_streams() || watch.waits().0
}

/// When the connection has been left alone for too long; never while it has streams.
fn deadline(limits: &Limits, session: &Session) -> Option<Instant> {
    match session.phase {
        Phase::Cut => Some(session.last + FAREWELL),
        _ if !session.tasks.is_empty() || session.is_sending() => None,
        Phase::Leaving => Some(session.last + FAREWELL),
        Phase::Open => Some(session.last + limits.idle),
    }
}

/// Lets everybody else have a turn who can go on: first it is looked who can, and whoever yields comes before those who were found so.
async fn others_first() {
    // What `h2` has woken this task for meanwhile would make the first yield one to nobody.
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    let mut is_behind = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_behind, true) {
            return Poll::Ready(());
        }
        // Woken amid its own turn, a task goes behind all others.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What happens next. While there is no stream, others may need what the connection holds.
async fn unless_let_go(idle: Option<&mut Kept>, next: impl Future<Output = Event>) -> Event {
    match idle {
        Some(kept) => kept.idle(next).await.unwrap_or(Event::LetGo),
        None => next.await,
    }
}

/// Moves frames until something happens.
async fn next(
    connection: &mut Connection<Wire, Queued>,
    (watch, clock): (&Watch, &Clock),
    behind: &mut Behind,
    waiting: Waiting,
) -> Event {
    // Made when it is first waited for: where one request follows another, it never is.
    let mut timer = None;
    poll_fn(|cx| {
        loop {
            let is_full = behind.is_full(waiting.streams);
            let accepted = if waiting.full || is_full {
                connection.poll_closed(cx).map(|closed| closed.err().map(Err))
            } else {
                connection.poll_accept(cx)
            };
            if let Poll::Ready(accepted) = accepted {
                return Poll::Ready(Event::Accepted(accepted));
            }
            // While as many are carried out as may be, `h2` refuses what comes; but it reads on, for what these wait for may be behind that.
            if !is_full && watch.reads_on(waiting.full) {
                continue;
            }
            // What has been sent meanwhile may have made room for streams that wait, which nobody tells of again.
            if !is_full || behind.is_full(waiting.streams) {
                break;
            }
        }
        behind.in_a_row = 0;
        if watch.brings_content() {
            return Poll::Ready(Event::Content);
        }
        let slow_head = match waiting.head {
            Some(head) => {
                if let Some(flood) = watch.flood() {
                    return Poll::Ready(Event::Flood(flood));
                }
                watch.head_since().map(|since| since + head)
            }
            None => None,
        };
        if let Poll::Ready(Err(error)) = watch.poll_send(cx) {
            return Poll::Ready(Event::Broken(error));
        }
        if let Some(most) = behind.send_buffer() {
            watch.bound_send_buffer(most);
        }
        let (unsent, unseen) = (watch.waits().1, watch.unseen_heads(waiting.streams));
        if behind.look((unsent, unseen), waiting.streams, clock, cx).is_err() {
            return Poll::Ready(Event::LetGo);
        }
        if waiting.alone && !is_sending(connection, watch) {
            return Poll::Ready(Event::Sent);
        }
        let stalled = waiting.alone.then(|| behind.stalled());
        let Some(until) = [slow_head, stalled, waiting.until].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        let timer = timer.get_or_insert_with(|| Box::pin(clock.timer(Duration::ZERO)));
        timer.as_mut().reset(until);
        timer.as_mut().poll(cx).map(|()| match slow_head {
            Some(slow) if slow <= until => Event::Flood(limits::Flood::SlowHead),
            _ if stalled.is_some_and(|stalled| stalled <= until) => Event::Stalled,
            _ => Event::Late,
        })
    })
    .await
}
