//! What there is at the origin: resources, and how they are answered.

use std::time::Duration;

use crate::random::{Random, mixed};

/// Tags that there are.
pub const TAGS: u64 = 3;

/// How one resource is answered.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its path.
    pub path: String,
    /// How long an answer is fresh; `None` where it may not be stored.
    pub lifetime: Option<Duration>,
    /// How long it may be used while it is validated.
    pub meanwhile: Duration,
    /// How many variants it has, by X-Kind.
    pub variants: usize,
    /// Answers without a length, in chunks.
    pub chunked: bool,
    /// The origin gives parts of it.
    pub ranges: bool,
    /// What purges call it, of [`TAGS`].
    pub tags: Vec<u64>,
    /// By how much its size varies, and the least.
    sizes: (u64, u64),
}

impl Resource {
    fn drawn(number: usize, random: &mut Random) -> Resource {
        let lifetime = match random.below(10) {
            0 => None,
            1 => Some(0),
            2..5 => Some(random.within(1..30)),
            _ => Some(random.within(60..4000)),
        };
        let sizes = match random.below(10) {
            0 => (0, 0),
            1..5 => (2_000, 10),
            5..8 => (60_000, 3_000),
            _ => (350_000, 100_000),
        };
        Resource {
            path: format!("/r{number}"),
            lifetime: lifetime.map(Duration::from_secs),
            meanwhile: Duration::from_secs(if random.per_mille(150) { random.within(1..60) } else { 0 }),
            variants: if random.per_mille(250) { 2 } else { 1 },
            chunked: random.per_mille(250),
            ranges: random.per_mille(700),
            tags: (0..TAGS).filter(|_| random.per_mille(400)).collect(),
            sizes,
        }
    }

    /// The resources of a site.
    pub fn all(random: &mut Random) -> Vec<Resource> {
        let count = random.within(3..14) as usize;
        (0..count).map(|number| Resource::drawn(number, random)).collect()
    }

    /// The bytes of one of its versions.
    pub fn bytes(&self, variant: usize, number: u64) -> u64 {
        let (spread, least) = self.sizes;
        if spread == 0 { least } else { least + mixed(number * 31 + variant as u64) % spread }
    }

    /// What its origin calls it, if anything: purges go by that.
    pub fn tags(&self) -> Option<String> {
        (!self.tags.is_empty()).then(|| self.tags.iter().map(|tag| format!("t{tag}")).collect::<Vec<_>>().join(" "))
    }

    /// What is said of its use.
    pub fn cache_control(&self) -> String {
        let Some(lifetime) = self.lifetime else { return "no-store".into() };
        let mut said = format!("max-age={}", lifetime.as_secs());
        if self.meanwhile.is_zero() {
            said.push_str(", must-revalidate");
        } else {
            said.push_str(&format!(", stale-while-revalidate={}", self.meanwhile.as_secs()));
        }
        said
    }
}
