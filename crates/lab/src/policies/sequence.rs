//! A load ready to be replayed: objects numbered from 0 on, and when each is asked for again.

use std::collections::HashMap;

use crate::load::Request;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The object's number, from 0 on.
    pub object: u32,
    /// Its size: name, head and body.
    pub bytes: u64,
    /// How much of its body is sent to who asks.
    pub sent_bytes: u64,
    /// Where in the sequence this is.
    pub at: u32,
    /// Where it is asked for the next time; [`Asked::NEVER`] if it is not.
    pub again: u32,
    /// Whether it may be stored.
    pub cachable: bool,
}

impl Asked {
    /// See [`Asked::again`].
    pub const NEVER: u32 = u32::MAX;
}

/// See the module. Memory: 40 bytes a request.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// The requests.
    pub asked: Vec<Asked>,
    /// Objects among them.
    pub objects: usize,
    /// What the objects take that may be stored: the footprint.
    pub bytes: u64,
}

impl Sequence {
    /// Name and head of an object, as a proxy stores them: any cache must keep them with the body.
    pub const BESIDE_BODY: u64 = 200;

    /// Make one of requests, with bodies cut off at `most_bytes`, and so many bytes for an object's name and head.
    pub fn new(requests: impl IntoIterator<Item = Request>, most_bytes: u64, beside_body: u64) -> Sequence {
        let (mut numbers, mut last, mut all) = (HashMap::new(), Vec::<u32>::new(), Sequence::default());
        for request in requests {
            let (at, bytes) = (all.asked.len() as u32, request.bytes.min(most_bytes).saturating_add(beside_body));
            let object = *numbers.entry(request.object).or_insert(last.len() as u32);
            match last.get_mut(object as usize) {
                Some(last) => {
                    let before = std::mem::replace(last, at) as usize;
                    if let Some(before) = all.asked.get_mut(before) {
                        before.again = at;
                    }
                }
                None => {
                    last.push(at);
                    all.bytes = all.bytes.saturating_add(if request.cachable { bytes } else { 0 });
                }
            }
            let (again, cachable, sent_bytes) = (Asked::NEVER, request.cachable, request.sent_bytes);
            all.asked.push(Asked { object, bytes, sent_bytes, at, again, cachable });
        }
        all.objects = last.len();
        all
    }
}

#[cfg(test)]
impl Sequence {
    /// Objects and their sizes, as tests write them.
    pub fn of(asked: &[(u64, u64)]) -> Sequence {
        let request = |&(object, bytes)| {
            let time = std::time::Duration::ZERO;
            let sent_bytes = bytes;
            Request { time, object, bytes, sent_bytes, client: 0, referer: None, host: 0, stream: 0, cachable: true }
        };
        Sequence::new(asked.iter().map(request), u64::MAX, 0)
    }

    /// Which of the requests a policy finds.
    pub fn found(&self, policy: &mut dyn super::Policy) -> Vec<bool> {
        self.asked.iter().map(|asked| policy.ask(asked)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_knows_when_it_is_asked_for_again() {
        let sequence = Sequence::of(&[(7, 10), (9, 20), (7, 10), (7, 10)]);
        let again: Vec<_> = sequence.asked.iter().map(|asked| (asked.object, asked.again)).collect();
        assert_eq!(again, [(0, 2), (1, Asked::NEVER), (0, 3), (0, Asked::NEVER)]);
        assert_eq!((sequence.objects, sequence.bytes), (2, 30));
    }
}
