//! The origins of a route while the proxy runs, and which of them a request goes to.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use tinaja_clock::Clock;

use super::backend::{Attempt, Backend};
use super::health::Rules;
use super::reach::Reach;
use super::{Balance, Behind, OriginTls, OriginUrl, Trust};
use crate::errors::ServeError;
use crate::failure::Failure;
use crate::limits::Limits;

/// One route's origins.
#[derive(Debug)]
pub(crate) struct Group {
    pub behind: Arc<Behind>,
    pub members: Vec<Arc<Backend>>,
    pub reach: Arc<Reach>,
    turn: AtomicUsize,
}

/// What makes an origin the same one after a reload, so that what is known of it holds: its route, its URL and its files. The
/// list may change while one of them is down.
type Identity = (String, OriginUrl, OriginTls, Option<String>);

/// All routes' origins. Memory: some 500 bytes for each origin that is configured.
#[derive(Debug, Default)]
pub(crate) struct Groups(RwLock<foldhash::HashMap<Arc<Behind>, Arc<Group>>>);

impl Group {
    fn new(behind: Arc<Behind>, known: &HashMap<Identity, Arc<Backend>>, reach: Arc<Reach>) -> Group {
        let origins = behind.upstream.origins.iter();
        let members = origins.map(|url| {
            let same = known.get(&identity(&behind, url));
            same.cloned().unwrap_or_else(|| Arc::new(Backend::new(&behind, url, &reach.clock)))
        });
        Group { members: members.collect(), reach, turn: AtomicUsize::new(0), behind }
    }

    pub(super) fn rules(&self) -> Rules {
        let upstream = &self.behind.upstream;
        Rules {
            may_rest: upstream.may_rest(),
            fails: upstream.fails,
            rest: upstream.rest,
            passes: upstream.check.as_ref().map(|check| check.passes),
        }
    }

    /// The order in which a request goes to the origins. `key` is what it is for.
    pub fn course(self: &Arc<Self>, key: &[u8]) -> Course {
        let all = 0..self.members.len();
        let mut order: Vec<usize> = all.collect();
        match self.behind.upstream.balance {
            Balance::First => {}
            Balance::RoundRobin => {
                // Among those that are up: what one that is out leaves would all go to the next one else.
                let (mut up, out): (Vec<_>, Vec<_>) =
                    order.iter().partition(|index| self.members.get(**index).is_some_and(|member| member.is_up()));
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                if let Some(first) = turn.checked_rem(up.len()) {
                    up.rotate_left(first);
                }
                // One that is out is tried when its time has come, and nobody goes there else.
                order = out.into_iter().chain(up).collect();
            }
            Balance::Hash => {
                // Each origin draws a number for each key, and the highest has it (rendezvous hashing).
                let number = |index: &usize| {
                    let mut hasher = DefaultHasher::new();
                    (self.members.get(*index).map(|member| &member.url), key).hash(&mut hasher);
                    std::cmp::Reverse(hasher.finish())
                };
                order.sort_by_cached_key(number);
            }
        }
        Course { group: self.clone(), order: order.into_iter(), tried: 0 }
    }

    /// Why there is nobody to ask.
    pub fn none_left(&self) -> Failure {
        let last = self.members.iter().find_map(|member| member.last_failure());
        let last = last.map_or("nobody knows why".into(), |failure| failure.to_string());
        Failure::AllOut { origins: self.members.len(), last }
    }
}

/// One request's way through the origins.
pub(crate) struct Course {
    group: Arc<Group>,
    order: std::vec::IntoIter<usize>,
    tried: u32,
}

impl Course {
    /// The next origin to send the request to; none if it has been sent to enough of them, or no other is up.
    /// `repeatable` says that the request can be sent elsewhere should it fail: only such ones try origins that are out,
    /// but where nothing else is left.
    pub fn next(&mut self, repeatable: bool) -> Option<Attempt> {
        let rules = self.group.rules();
        if self.tried >= self.group.behind.upstream.tries {
            return None;
        }
        let now = self.group.reach.clock.now();
        let enter = |index: usize, may_try| self.group.members.get(index)?.enter(now, rules, may_try);
        let passed_by = self.order.clone();
        let mut found = self.order.find_map(|index| enter(index, repeatable));
        if found.is_none() && self.tried == 0 && !repeatable {
            found = passed_by.into_iter().find_map(|index| enter(index, true));
        }
        self.tried += u32::from(found.is_some());
        found
    }
}

impl Groups {
    /// A route's origins, as they are known, or as they would begin: a request may have come before a reload.
    pub fn of(
        &self,
        behind: &Arc<Behind>,
        trust: &Trust,
        limits: &Limits,
        clock: &Clock,
    ) -> Result<Arc<Group>, Failure> {
        if let Some(group) = self.0.read().get(behind) {
            return Ok(group.clone());
        }
        let reach =
            Reach::load(&behind.upstream, trust, limits, clock).map_err(|bad| Failure::Internal(bad.to_string()))?;
        Ok(Arc::new(Group::new(behind.clone(), &self.known(), Arc::new(reach))))
    }

    /// What these routes need, with all that is known of origins that stay. Routes that are the same share what they know.
    ///
    /// Errors: [`ServeError::OriginTls`].
    pub fn prepare<'a>(
        &self,
        behinds: impl Iterator<Item = &'a Arc<Behind>>,
        trust: &Trust,
        limits: &Limits,
        clock: &Clock,
    ) -> Result<Groups, ServeError> {
        let mut known = self.known();
        let mut made: foldhash::HashMap<Arc<Behind>, Arc<Group>> = foldhash::HashMap::default();
        for behind in behinds {
            if made.contains_key(behind) {
                continue;
            }
            let reach = Reach::load(&behind.upstream, trust, limits, clock);
            let reach = reach.map_err(|cause| ServeError::OriginTls { route: behind.route.clone(), cause })?;
            let group = Group::new(behind.clone(), &known, Arc::new(reach));
            known.extend(group.members.iter().map(|member| (identity(behind, &member.url), member.clone())));
            made.insert(behind.clone(), Arc::new(group));
        }
        Ok(Groups(RwLock::new(made)))
    }

    /// Goes by others from now on.
    pub fn exchange(&self, others: Groups) {
        *self.0.write() = others.0.into_inner();
    }

    /// All of them, by their routes.
    pub fn all(&self) -> Vec<Arc<Group>> {
        self.0.read().values().cloned().collect()
    }

    fn known(&self) -> HashMap<Identity, Arc<Backend>> {
        let groups = self.0.read();
        let of_group = |group: &Arc<Group>| {
            let member = |member: &Arc<Backend>| (identity(&group.behind, &member.url), member.clone());
            group.members.iter().map(member).collect::<Vec<_>>()
        };
        groups.values().flat_map(of_group).collect()
    }
}

fn identity(behind: &Behind, url: &OriginUrl) -> Identity {
    let check = behind.upstream.check.as_ref().map(|check| check.path.clone());
    (behind.route.clone(), url.clone(), behind.upstream.tls.clone(), check)
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
