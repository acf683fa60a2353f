//! Asking origins from time to time whether they are well.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use http::StatusCode;
use http::header::{CONNECTION, HOST, USER_AGENT};
use tinaja_http::message::{BadField, Fields, RequestHead, ResponseHead};
use tokio::task::JoinSet;

use super::group::Group;
use super::{Backend, Check, Origins, Target, resolve};
use crate::failure::Failure;

/// How often it is looked which origins are to be asked: where there are any, and where a reload may bring some.
const TURN: Duration = Duration::from_millis(100);
const IDLE_TURN: Duration = Duration::from_secs(1);
/// An answer has so long to come, or longer where questions are further apart.
const PATIENCE: Duration = Duration::from_secs(5);
/// Answers before the answer.
const MOST_INTERIM: usize = 16;

/// Asks each origin that is to be checked, as the routes say now, until it is dropped. `refuse` says what may not be
/// connected to. One question at a time for each origin, and none while `is_offline` says so.
pub(crate) async fn check_all(
    origins: Arc<Origins>,
    refuse: impl Fn(SocketAddr) -> Result<(), Failure> + Send + Sync + 'static,
    is_offline: impl Fn() -> bool + Send,
) {
    let refuse = Arc::new(refuse);
    let mut questions = JoinSet::new();
    loop {
        let mut any = false;
        for group in origins.groups() {
            let Some(check) = &group.behind.upstream.check else { continue };
            any = true;
            if is_offline() {
                // What was last known of them holds until then.
                break;
            }
            for member in group.members.iter().filter(|member| member.begin_check(origins.clock.now())) {
                let (origins, group, member, check) = (origins.clone(), group.clone(), member.clone(), check.clone());
                let refuse = refuse.clone();
                questions.spawn(async move {
                    let patience = check.interval.max(PATIENCE);
                    let asked = origins
                        .clock
                        .timeout(patience, origins.ask_whether_well(&group, &member, &check, &*refuse))
                        .await;
                    member.checked(asked.unwrap_or(Err(Failure::OriginTimeout)), group.rules());
                    member.end_check(origins.clock.now() + check.interval);
                });
            }
        }
        while questions.try_join_next().is_some() {}
        origins.clock.timer(if any { TURN } else { IDLE_TURN }).await;
    }
}

impl Origins {
    async fn ask_whether_well(
        &self,
        group: &Group,
        member: &Backend,
        check: &Check,
        refuse: &(impl Fn(SocketAddr) -> Result<(), Failure> + Sync),
    ) -> Result<(), Failure> {
        let target = Target::of(group, member);
        let addresses = resolve(&self.clock, &member.destination, target.reach.connect, refuse).await?;
        // A connection of its own: that one can be made is part of the question.
        let mut connection = self.connect(&member.destination, &target, &addresses, true).await?;
        let head = question(member, check).map_err(|error| Failure::Internal(error.to_string()))?;
        connection.send(&head).await?;
        let mut heads = 0;
        let answer: ResponseHead = loop {
            let head = connection.read_head().await?;
            heads += 1;
            if !head.status.is_informational() {
                break head;
            }
            if heads > MOST_INTERIM || head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Err(Failure::Origin("it does not come to an answer".into()));
            }
        };
        if answer.status.is_success() || answer.status.is_redirection() {
            return Ok(());
        }
        Err(Failure::Origin(format!("it answered {} to GET {}", answer.status.as_u16(), check.path)))
    }
}

fn question(member: &Backend, check: &Check) -> Result<RequestHead, BadField> {
    let mut headers = Fields::default();
    headers.insert(HOST, member.url.host_field())?;
    headers.insert(USER_AGENT, "Tinaja")?;
    headers.insert(CONNECTION, "close")?;
    Ok(RequestHead { method: Method::GET, target: check.path.clone().into(), headers })
}

/// When an origin is to be asked next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Turn {
    #[default]
    Now,
    /// It is being asked.
    Asked,
    At(Instant),
}

impl Backend {
    /// Whether it is to be asked now; nobody else asks it then.
    fn begin_check(&self, now: Instant) -> bool {
        let mut turn = self.turn.lock();
        let due = match *turn {
            Turn::Now => true,
            Turn::Asked => false,
            Turn::At(time) => now >= time,
        };
        if due {
            *turn = Turn::Asked;
        }
        due
    }

    fn end_check(&self, next: Instant) {
        *self.turn.lock() = Turn::At(next);
    }
}
