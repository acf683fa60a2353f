//! What was taken back: which stored objects count no more, though nobody has looked for them yet.
//!
//! - `stamp`: when an answer was asked for, counted in bans; `tags`: what its origin calls it
//! - `selector`: what an operator names; `rule`: the same as it is looked up
//! - `seen`: what stamps that other nodes of a cluster gave are worth here; `told`: bans as nodes tell them each other
//! - `removed`: single URLs that were removed while their origin may have been answering
//! - `arrivals`: what is being stored, and what comes too late for that; `walk`: forgetting bans; `walked`: those that nothing fits any more;
//!   `epochs`: when they leave the file
//! - `marks`: bans, and the newest one of each rule; `table`: all bans, and whether one fits an object; `checked`: objects that none fits; `file`: where they are written down, as `record`s
//!
//! # Decisions
//!
//! - Bans are numbered. Each stored answer has the number of the last ban when its origin was asked, and a ban fits what was asked for
//!   before it. So nothing that was on its way when it was taken back is served afterwards, whenever it is stored, and no clock decides it.
//! - An object that was asked for after the newest ban costs one comparison. For an older one the newest ban that fits is looked up: once
//!   for each of its tags, its host, the domains above it and the prefixes of its URL; regular expressions and suffixes are tried one by one,
//!   so there are few. That none fits is remembered until the next ban. Objects are not listed by their tags, so memory grows with bans alone.
//! - A ban is on the disk before it is answered. Where bans were lost, what is stored is validated before it is used: that costs requests,
//!   and never serves what was taken back.
//! - What is banned stays where it is until a walk in the background comes past it ([`crate::forgetting`]), and has the store forget it, which writes nothing: a
//!   removal would have to be written down for each object. A ban that nothing older fits any more is forgotten then, if nothing older can come: no object is compared with it. It
//!   stays in the file, since what the store forgot may be back when it is opened anew; whoever opens it walks again. It leaves the file once an index is on
//!   every disk that was saved in an epoch of the store's behind the walk. Where a disk turns out to be opened by an older one all the same, everything
//!   as old is validated.
//! - What is banned softly stays, since it may be served stale. So a soft ban is forgotten once all that it fits was validated, replaced or evicted.
//! - The bans of a node are never forgotten so: other nodes' disks and memory hold objects that are as old, and one that was cut off brings them back.
//! - Each node of a cluster has a book of its own, and numbers bans as it hears of them: numbers of one order would need a leader, or clocks. So a stamp
//!   of another book is worth what is certain of it ([`Bans::note_seen`]): whoever has made a ban has the others begin a new number, and what they stamp with
//!   that or a later one was asked for after the ban. Of what is not known every ban counts: that costs requests, and never serves what was taken back.
//! - Where there are too many bans, one of everything that is as old takes the place of the oldest: more is fetched anew, and memory stays
//!   bounded.

mod arrivals;
mod checked;
mod epochs;
mod file;
mod marks;
mod record;
mod removed;
mod rule;
mod seen;
mod selector;
mod stamp;
mod table;
mod tags;
mod told;
mod walk;
mod walked;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::HeaderName;
use parking_lot::{Mutex, RwLock};
use prometheus::proto::MetricFamily;
use tinaja_store::Key;

use crate::metrics::{counter, counters, gauge};
use arrivals::Arrivals;
pub(crate) use arrivals::Arriving;
use checked::Checked;
use file::Book;
pub use file::carry;
use marks::Ban;
use removed::Removed;
pub(crate) use rule::{Rule, Subject};
pub(crate) use selector::MOST_TEXT_BYTES;
pub use selector::{BadSelector, Selector};
pub(crate) use stamp::Stamp;
use table::Table;
pub(crate) use tags::{Tags, hash, split};
use told::Told;
pub(crate) use told::{answer_bytes, answer_of};
pub(crate) use walk::Walk;

/// The fields in which origins name tags.
pub(crate) fn tag_fields() -> &'static [HeaderName] {
    &tags::FIELDS
}

/// Whether a stored object counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Counts,
    /// It is stale since then, by a ban of this kind.
    Stale(SystemTime, &'static str),
    /// The bans that it would have to be compared with are lost: it is validated before it is used, whatever might be served stale.
    Unknown(SystemTime),
    /// It is gone, by a ban of this kind.
    Gone(&'static str),
}

/// Why something was not taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BanError {
    /// There is nowhere to write it down, or others would not hear of it.
    #[error("{0}")]
    Refused(&'static str),
    /// Another process has the cache.
    #[error("the cache is changing hands between two processes: try again in a few seconds")]
    Away,
    /// The file could not be written.
    #[error("nothing was purged, since it could not be written to {path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// Other nodes of the cluster have not confirmed it; here it holds.
    #[error(
        "it is purged here, and these nodes have not confirmed it: {0}. They are told again as long as they belong to the cluster, and whoever comes \
         back to it validates what is from before; until then they may serve what was purged. Purge again to be sure"
    )]
    Elsewhere(String),
    /// There were as many as can be counted.
    #[error("nothing was purged: there were more purges than this cache can count, so it has to be made anew")]
    Spent,
}

/// Why a proxy without a directory has no bans.
const NOWHERE: &str = "nothing was purged: the cache has no directory to write purges down in, as when it is a whole device; purge single URLs, \
                       or put a directory first in `cache`";

/// Why a stopped node of a cluster takes none.
const STOPPED_NODE: &str = "nothing was purged: this node of a cluster does not run, and the others would not hear of it; purge at a node that runs. This \
                            one validates what it has when it starts";

/// Why nodes cannot tell each other so much.
const TOO_MUCH: &str = "nothing was purged: it is more than nodes of a cluster are told at once; purge less at a time";

/// Why a node is not believed.
const TWIN: &str = "its tinaja.bans is a copy of that of the node that purges: stop one of the two, remove that file there, and start it again";

/// Who may write bans down.
enum Writer {
    Book(Book),
    Away,
    Nobody(&'static str),
    /// The file cannot be read.
    Broken(String),
}

/// All bans of one cache. Memory: some 200 bytes and its text for each, [`table::MOST_BANS`] of them at most, and [`table::MOST_TEXT_BYTES`]
/// of text; and 256 KiB for objects that none fits.
pub(crate) struct Bans {
    now: AtomicU64,
    /// What is stamped with this or later has seen all bans.
    newest: AtomicU64,
    /// There are none, and objects come from other nodes.
    is_bare: AtomicBool,
    /// How often the cache became this process's.
    takes: AtomicU64,
    table: RwLock<Table>,
    checked: Checked,
    removed: Removed,
    arrivals: Arc<Arrivals>,
    writer: Mutex<Writer>,
    dir: Option<PathBuf>,
    is_node: bool,
    made: [AtomicU64; Rule::KINDS.len()],
    found: [AtomicU64; 2],
    collapsed: AtomicU64,
    forgotten: AtomicU64,
    walks: [AtomicU64; 2],
    walked_over: [AtomicU64; 2],
}

impl std::fmt::Debug for Bans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bans").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Bans {
    /// The bans that are written down in this directory, where the cache is another process's until [`Bans::take`].
    pub fn away(dir: Option<&Path>, is_node: bool) -> Bans {
        Bans {
            now: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            is_bare: AtomicBool::new(false),
            takes: AtomicU64::new(0),
            table: RwLock::default(),
            checked: Checked::default(),
            removed: Removed::default(),
            arrivals: Arc::default(),
            writer: Mutex::new(Writer::Away),
            dir: dir.map(Path::to_owned),
            is_node,
            made: Default::default(),
            found: Default::default(),
            collapsed: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            walks: Default::default(),
            walked_over: Default::default(),
        }
    }

    /// Goes by what is written down from now on. The cache is this process's, or is about to be; it was opened by an index of this epoch
    /// ([`tinaja_store::Store::saved_epoch`]).
    ///
    /// What cannot be read is said in the log; all that is stored is then stale.
    pub fn take(&self, now: SystemTime, epoch: u64) {
        let mut writer = self.writer.lock();
        let Some(dir) = &self.dir else {
            *writer = Writer::Nobody(NOWHERE);
            return;
        };
        let (mut table, book) = match Book::open(dir, seconds(now)) {
            // So that it is missed, should it be lost; and so that what a node stamps is told from what others do.
            Ok((mut table, mut book)) => {
                if let Err(error) = book.begin() {
                    let path = book.path();
                    tracing::warn!(path = %path.display(), %error, "purges cannot be written down yet: each purge tries again");
                }
                table.set_book(book.id());
                (table, Writer::Book(book))
            }
            Err(error) => {
                let path = file::path(dir);
                tracing::error!(
                    path = %path.display(), %error,
                    "cannot read which objects were purged: everything that is stored is validated before it is used, and purges by more than \
                     a URL are refused until the next start"
                );
                (
                    Table::distrusting(seconds(now)),
                    Writer::Broken(format!("it could not be read at the start: {error}")),
                )
            }
        };
        *writer = book;
        table.set_of_node(self.is_node);
        if table.opened_at(epoch) {
            tracing::warn!(
                "the index of the cache is older than purges that are written down no more, so what is stored may be what they named: it is \
                 validated before it is used, as long as anything is left of it"
            );
        }
        let mut own = self.table.write();
        *own = table;
        self.show(&own);
        self.takes.fetch_add(1, Ordering::Release);
    }

    /// What the table has come to, for those who look at no more than that.
    fn show(&self, table: &Table) {
        self.is_bare.store(self.is_node && table.is_empty(), Ordering::Release);
        self.arrivals.set_book(table.now().book());
        // Before anything is stamped with what is not older.
        self.newest.store(table.newest().0, Ordering::Release);
        self.now.store(table.now().0, Ordering::Release);
    }

    /// Leaves them to another process.
    pub fn leave(&self) {
        // One that is being written is done first.
        *self.writer.lock() = Writer::Away;
    }

    /// What an answer is stamped with that is asked for now.
    pub fn now(&self) -> Stamp {
        Stamp(self.now.load(Ordering::Acquire))
    }

    /// Whether what stands there and was asked for at `stamp` still counts. `subject` is asked for only if there are newer bans, and it
    /// has not been compared with all of them.
    pub fn judge<'a>(
        &self,
        place: &Key,
        stamp: Stamp,
        tags: &Tags,
        subject: impl FnOnce() -> Option<Subject<'a>>,
    ) -> Verdict {
        let newest = Stamp(self.newest.load(Ordering::Acquire));
        if (newest.0..=self.now().0).contains(&stamp.0) || self.is_bare.load(Ordering::Acquire) {
            return Verdict::Counts;
        }
        let mark = self.checked.mark(place, stamp, tags, newest);
        if self.checked.counts(mark) {
            return Verdict::Counts;
        }
        let verdict = self.table.read().judge(stamp, tags, subject().as_ref());
        if verdict == Verdict::Counts {
            self.checked.note(mark);
        }
        verdict
    }

    /// How many single URLs have been removed: [`Bans::was_removed`] goes by it.
    pub fn removals(&self) -> u64 {
        self.removed.count()
    }

    /// What stands here is about to be removed, and with it what is on its way there.
    pub fn note_removal(&self, place: &Key) {
        self.removed.note(place);
    }

    /// Whether what stands here was removed since there had been so many removals. Asked behind whatever is put there: a removal that comes later
    /// finds that.
    pub fn was_removed(&self, place: &Key, since: u64) -> bool {
        self.removed.has(place, since)
    }

    /// Counts a stored object that was found, and was banned.
    pub fn count_found(&self, is_gone: bool) {
        let [stale, gone] = &self.found;
        let of = if is_gone { gone } else { stale };
        of.fetch_add(1, Ordering::Relaxed);
    }

    /// Bans as they are told to other nodes.
    ///
    /// Errors: there are too many.
    pub fn told(&self, rules: &[Rule], soft: bool, now: SystemTime) -> Result<Bytes, BanError> {
        let bans = (1..).zip(rules).map(|(number, rule)| Ban { number, rule: rule.clone(), soft, at: seconds(now) });
        Told::Bans(bans.collect()).bytes(self.now().book()).ok_or(BanError::Refused(TOO_MUCH))
    }

    /// What has another node begin a new number.
    pub fn meeting(&self) -> Bytes {
        Told::Meet.bytes(self.now().book()).unwrap_or_default()
    }

    /// Does what another node tells. The number from which on what this one asks for is younger. Blocks.
    ///
    /// Errors: why not, for that node.
    pub fn hear(&self, told: &[u8], now: SystemTime) -> Result<Stamp, String> {
        let (book, told) = Told::of(told).ok_or("it does not understand: use one release of Tinaja on both")?;
        if book != 0 && book == self.now().book() {
            tracing::error!(
                "a node of the cluster has a copy of this one's tinaja.bans, so its purges are not taken: remove that file at one of them"
            );
            return Err(TWIN.to_owned());
        }
        let done = match told {
            Told::Bans(bans) => {
                let (soft, hard): (Vec<_>, Vec<_>) = bans.into_iter().partition(|ban| ban.soft);
                let mut done = Err(BanError::Refused("it was told of nothing"));
                for (bans, soft) in [(hard, false), (soft, true)].into_iter().filter(|(bans, _)| !bans.is_empty()) {
                    done = self.ban(bans.into_iter().map(|ban| ban.rule).collect(), soft, now);
                    if done.is_err() {
                        break;
                    }
                }
                done
            }
            Told::Meet => self.begin_number(),
        };
        done.map_err(|error| error.to_string())
    }

    /// What is asked for from now on has another stamp than what was asked for before; which. Blocks.
    fn begin_number(&self) -> Result<Stamp, BanError> {
        let mut writer = self.writer.lock();
        let book = self.book(&mut writer)?;
        let next = self.table.read().number() + 1;
        if next > stamp::MOST {
            return Err(BanError::Spent);
        }
        book.set_aside(next, &self.table)
            .map_err(|error| BanError::File { path: book.path(), why: error.to_string() })?;
        let mut table = self.table.write();
        table.set_book(book.id());
        table.begin_number();
        self.show(&table);
        Ok(table.now())
    }

    /// What another node stamps with this or later was asked for after the bans up to that number had been made.
    pub fn note_seen(&self, from: Stamp, up_to: Stamp) {
        let mut table = self.table.write();
        if table.now().book() == up_to.book() {
            table.note_seen(from, up_to.number());
        }
    }

    /// Two nodes name this book: of what is stamped by it nothing is known.
    pub fn forget_seen(&self, book: u32) {
        self.table.write().forget_seen(book);
    }

    /// How far other nodes must have heard, for their objects to be told from older ones; `None` if there are no bans. And how often the cache became this
    /// process's: what was known of other nodes before is forgotten.
    pub fn to_be_seen(&self) -> Option<(u64, Stamp)> {
        let takes = self.takes.load(Ordering::Acquire);
        let table = self.table.read();
        (self.is_node && !table.is_empty()).then(|| (takes, table.newest()))
    }

    fn book<'a>(&self, writer: &'a mut Writer) -> Result<&'a mut Book, BanError> {
        match writer {
            Writer::Book(book) => Ok(book),
            Writer::Away => Err(BanError::Away),
            Writer::Nobody(why) => Err(BanError::Refused(why)),
            Writer::Broken(why) => {
                let path = self.dir.as_deref().map(file::path).unwrap_or_default();
                Err(BanError::File { path, why: why.clone() })
            }
        }
    }

    /// Bans what fits one of these rules and was asked for before now; `soft` makes it stale and not gone. Returns once that is on the
    /// disk: what is asked for from now on is stamped so, or later. Blocks.
    ///
    /// Errors: [`BanError`]; nothing is banned then.
    pub fn ban(&self, rules: Vec<Rule>, soft: bool, now: SystemTime) -> Result<Stamp, BanError> {
        let mut writer = self.writer.lock();
        let book = self.book(&mut writer)?;
        let new: Vec<_> = {
            let table = self.table.read();
            let numbers = table.number() + 1..;
            numbers.zip(rules).map(|(number, rule)| Ban { number, rule, soft, at: seconds(now) }).collect()
        };
        if new.last().is_some_and(|ban| ban.number > stamp::MOST) {
            return Err(BanError::Spent);
        }
        let failed = |path, error: std::io::Error| BanError::File { path, why: error.to_string() };
        book.add(&self.table, &new).map_err(|error| failed(book.path(), error))?;
        let mut table = self.table.write();
        table.set_book(book.id());
        let mut collapsed = 0;
        for ban in new {
            self.made.get(ban.rule.kind()).inspect(|made| _ = made.fetch_add(1, Ordering::Relaxed));
            collapsed += table.apply(ban);
        }
        self.show(&table);
        let stamp = table.now();
        drop(table);
        if collapsed > 0 {
            self.collapsed.fetch_add(collapsed, Ordering::Relaxed);
            tracing::warn!(
                "there are too many purges by more than a URL: one of everything that is as old takes the place of the oldest {collapsed}"
            );
        }
        if let Err(error) = book.shorten(&self.table) {
            tracing::warn!(%error, path = %book.path().display(), "the file of purges could not be rewritten, and grows on");
        }
        Ok(stamp)
    }

    /// What is counted of them.
    pub fn families(&self) -> Vec<MetricFamily> {
        let all = |counts: &[AtomicU64], kinds: &[&'static str]| -> Vec<_> {
            kinds.iter().copied().zip(counts.iter().map(|count| count.load(Ordering::Relaxed))).collect()
        };
        let (held, written, in_doubt) = {
            let table = self.table.read();
            (table.count(), table.written(), table.lost().is_some())
        };
        let collapsed = self.collapsed.load(Ordering::Relaxed);
        let made = "Purges by more than a URL, and soft ones, by what they name.";
        let found = "Stored objects that were found purged by more than their URL, or softly, by what became of them.";
        vec![
            gauge("tinaja_bans", "Purges that objects which are found are compared with.", held as f64),
            counter(
                "tinaja_collapsed_bans_total",
                "Purges that one of everything as old has taken the place of.",
                collapsed,
            ),
            gauge(
                "tinaja_written_bans",
                "Purges that are written down, also those that are forgotten and have not left the file.",
                written as f64,
            ),
            gauge(
                "tinaja_doubted_bans",
                "1 while purges that have left the file may name what is stored, so that all that is as old is validated; else 0.",
                f64::from(u8::from(in_doubt)),
            ),
            counter(
                "tinaja_forgotten_bans_total",
                "Purges that are compared with nothing any more, since nothing that they name is left.",
                self.forgotten.load(Ordering::Relaxed),
            ),
            counters(
                "tinaja_ban_walks_total",
                "Walks through all that is stored, after which purges are forgotten.",
                "result",
                &all(&self.walks, &["given-up", "ended"]),
            ),
            counters(
                "tinaja_walked_objects_total",
                "Stored objects that such walks came past, by what became of them.",
                "result",
                &all(&self.walked_over, &["stays", "gone"]),
            ),
            counters("tinaja_purges_total", made, "kind", &all(&self.made, &Rule::KINDS)),
            counters("tinaja_banned_objects_total", found, "result", &all(&self.found, &["stale", "gone"])),
        ]
    }
}

/// Why what is purged in a stopped node is not.
pub(crate) fn of_stopped_node() -> BanError {
    BanError::Refused(STOPPED_NODE)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod node_tests;
#[cfg(test)]
mod tests;
