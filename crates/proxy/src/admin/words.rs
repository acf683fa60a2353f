//! What is said through the socket: one JSON object on one line, and one in return.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tinaja_store::Stats;

use crate::bans::Selector;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// Forget what is stored under this URL, all variants.
    Purge {
        /// Absolute, as clients ask for it.
        url: String,
    },
    /// Take back what is stored and fits one of these.
    PurgeBy {
        /// At least one.
        what: Vec<Selector>,
        /// It becomes stale, and is not gone.
        #[serde(default)]
        soft: bool,
    },
    /// Read the settings again, and go by them.
    Reload,
    /// Start a new process of the same program, and hand over to it.
    Upgrade,
    /// Hand over to whoever asks this, which goes on in a conversation of its own.
    HandOver {
        /// The version of that conversation.
        protocol: u32,
        /// The cache's directories as the new process has them, in order.
        cache: Vec<PathBuf>,
    },
    /// How the cluster is that the server is a node of.
    Cluster,
    /// What would become of a GET, which the origin is not asked about.
    Explain {
        /// Absolute, as clients ask for it.
        url: String,
        /// Fields of the request, each a name and a value.
        #[serde(default)]
        fields: Vec<(String, String)>,
    },
    /// What the cache holds.
    Inspect {
        /// How many hosts to list; 0 looks at no object.
        top: u32,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// It is not there any more.
    Purged {
        /// How many objects there were; one for each kind of proxy that stored it.
        objects: u64,
    },
    /// Nothing that fits is served as it was from now on.
    PurgedBy,
    /// The settings hold from now on.
    Reloaded {
        /// The names of those that have changed and wait for the next start.
        later: Vec<String>,
    },
    /// Another process serves from now on.
    Upgraded {
        /// Its id.
        process: u32,
    },
    /// How the cluster is, as its node says.
    Cluster {
        /// In the words of the crate that knows it.
        status: serde_json::Value,
    },
    /// What would become of a GET.
    Explained {
        /// At each listener where it would be stored under another name.
        ways: Vec<Explained>,
    },
    /// What the cache holds.
    Inspected {
        /// In numbers.
        figures: Box<Figures>,
        /// By hosts, if that was asked for.
        top: Option<Top>,
    },
    /// It was not done.
    Failed {
        /// Why, and what to do.
        why: String,
    },
}

/// What would become of a GET at one listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// Where it would come in, as in "forward proxy on 127.0.0.1:3128".
    pub listener: String,
    /// What is stored is named so.
    pub name: String,
    /// The key rule that fits the URL, if there is one. Older servers do not say it.
    #[serde(default)]
    pub key_rule: Option<String>,
    /// The URL that the origin is asked for, if there is such a rule.
    #[serde(default)]
    pub asked_as: Option<String>,
    /// The cache rule that fits what is stored; of what is not stored those that may fit, in their order.
    pub rules: Vec<String>,
    /// What is stored, if anything is that would do for such a request.
    pub stored: Option<Stored>,
    /// How many variants of it there are, if it varies.
    pub variants: Option<u64>,
    /// Which cookies count where the response varies by Cookie, and what follows from it; nothing where the request has none and no key rule names
    /// any. Older servers do not say it.
    #[serde(default)]
    pub cookies: Option<String>,
    /// What would become of it.
    pub verdict: Verdict,
    /// Why.
    pub why: String,
}

/// What would become of a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is answered from the cache.
    Hit,
    /// The origin is asked whether what is stored still holds.
    Validation,
    /// The origin is asked for the answer.
    Miss,
    /// It is answered with an error.
    Refused,
}

/// What is stored for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The answer's status.
    pub status: u16,
    /// Its media type, if it has one.
    pub content_type: Option<String>,
    /// The length of its body, if it is known.
    pub bytes: Option<u64>,
    /// How old it is, in seconds.
    pub age: u64,
    /// For how many seconds it is fresh; below 0 since when it is not.
    pub ttl: i64,
    /// Whether it can be validated.
    pub has_validator: bool,
    /// The codings in which it is stored besides, and the length in each.
    #[serde(default)]
    pub encoded: Vec<(String, u64)>,
}

/// The figures of a cache. Sizes are bytes; the names are stable, scripts read them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// See [`Stats::engine`].
    pub engine: String,
    /// See [`Stats::mean_object_bytes`].
    pub mean_object_bytes: u64,
    /// Bytes of a bin, where the engine has a Disk Table; 0 elsewhere.
    pub bin_bytes: u64,
    /// Bins of a set, where the engine has a Disk Table; 0 elsewhere.
    pub ways: u64,
    /// What only its engine counts, these two included: see [`Stats::of_engine`]. Older servers do not say it.
    #[serde(default)]
    pub of_engine: BTreeMap<String, u64>,
    /// See [`Stats::slots`].
    pub slots: u64,
    /// See [`Stats::live_objects`].
    pub live_objects: u64,
    /// See [`Stats::lost_to_full_sets`].
    pub lost_to_full_sets: u64,
    /// See [`Stats::fill`].
    pub fill: f64,
    /// See [`Stats::index_bytes`].
    pub index_bytes: u64,
    /// See [`Stats::hot_bytes`]. Older servers do not say it.
    #[serde(default)]
    pub hot_bytes: u64,
    /// See [`Stats::hot_budget_bytes`]. Older servers do not say it.
    #[serde(default)]
    pub hot_budget_bytes: u64,
    /// See [`Stats::bits_per_slot`].
    pub bits_per_slot: f64,
    /// See [`Stats::bits_per_live_object`].
    pub bits_per_live_object: f64,
    /// See [`Stats::capacity_bytes`].
    pub capacity_bytes: u64,
    /// See [`Stats::frontier_bytes`].
    pub frontier_bytes: u64,
    /// See [`Stats::lap`].
    pub lap: u64,
    /// See [`Stats::corrupt`].
    pub corrupt: u64,
    /// See [`Stats::damaged_at_open`].
    pub damaged_at_open: u64,
    /// Requests that the estimates below are from. Older servers do not say it, nor these.
    #[serde(default)]
    pub sampled_requests: u64,
    /// Requests that twice the memory for hot objects would answer from memory, and this does not: a share, 0 to 1.
    #[serde(default)]
    pub twice_memory_requests: f64,
    /// Requests that would be hits on a disk twice as large, and are none on this: a share, 0 to 1.
    #[serde(default)]
    pub twice_disk_requests: f64,
    /// The same of all bytes that are asked for.
    #[serde(default)]
    pub twice_disk_bytes: f64,
}

/// Hosts by what they have in the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// Those with the most objects, most first.
    pub by_objects: Vec<Host>,
    /// Those with the most bytes, most first.
    pub by_bytes: Vec<Host>,
    /// Objects that were looked at.
    pub objects: u64,
    /// Their bytes, heads included.
    pub bytes: u64,
    /// Whether those were all; if not, time ran out.
    pub complete: bool,
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name, with its port if that is an unusual one.
    pub host: String,
    /// How many objects it has.
    pub objects: u64,
    /// How many bytes, heads included.
    pub bytes: u64,
}

impl From<&Stats> for Figures {
    fn from(stats: &Stats) -> Figures {
        Figures {
            engine: stats.engine.to_owned(),
            mean_object_bytes: stats.mean_object_bytes,
            bin_bytes: stats.of_engine.named("bin_bytes"),
            ways: stats.of_engine.named("set_bins"),
            of_engine: stats.of_engine.iter().map(|(figure, value)| (figure.name.to_owned(), value)).collect(),
            slots: stats.slots,
            live_objects: stats.live_objects,
            lost_to_full_sets: stats.lost_to_full_sets,
            fill: stats.fill(),
            index_bytes: stats.index_bytes,
            hot_bytes: stats.hot_bytes,
            hot_budget_bytes: stats.hot_budget_bytes,
            bits_per_slot: stats.bits_per_slot(),
            bits_per_live_object: stats.bits_per_live_object(),
            capacity_bytes: stats.capacity_bytes,
            frontier_bytes: stats.frontier_bytes,
            lap: stats.lap,
            corrupt: stats.corrupt,
            damaged_at_open: stats.damaged_at_open,
            sampled_requests: stats.larger.sampled,
            twice_memory_requests: stats.larger.by_memory().0,
            twice_disk_requests: stats.larger.by_disk().0,
            twice_disk_bytes: stats.larger.by_disk().1,
        }
    }
}
