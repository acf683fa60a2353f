//! A mapped file that is too small for all objects: who is in it, and the I/O of a request.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tinaja_store::device::mapped::{Packing, Segment, WithMapped};
use tinaja_store::device::tree::{Call, Tree};
use tinaja_store::engine::trees::{Mapped, Replacement, Segments};

use super::future::Placements;
use crate::error::LabError;
use crate::load::Request;

/// Of those asked for least recently, so many are looked at for one whose page is in memory.
pub const LOOKED_AT: usize = 32;
/// The kernel's page, which it reads and writes whole.
pub const KERNEL_PAGE: u64 = 4096;

/// What is done about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is there: read it.
    Read(Segment),
    /// Write it, over another object or not.
    Write { segment: Segment, over_another: bool },
    /// It is neither there nor to be kept.
    Pass,
}

/// Who is in the file.
pub enum Cache {
    /// By the engines' own rules, and of LRU's candidates, if so wanted, the first on a page in memory (section 7).
    ByRule { segments: Box<Segments>, index: HashMap<u64, (Segment, u32)>, prefers_resident: bool },
    /// As the placement table says.
    Planned { placements: Placements, inside: HashMap<Segment, u64> },
}

impl Cache {
    /// By a rule, over a file of so many bytes.
    pub fn by_rule(replacement: Replacement, file_bytes: u64, prefers_resident: bool) -> Cache {
        let mapped = Mapped { bytes: file_bytes, page_bytes: 8192, packing: Packing::WithinPages, replacement };
        let segments = Box::new(Segments::with(mapped, std::iter::empty()));
        Cache::ByRule { segments, index: HashMap::new(), prefers_resident }
    }

    /// With all requests known.
    pub fn planned(requests: &[Request], file_bytes: u64) -> Cache {
        Cache::Planned { placements: Placements::of(requests, file_bytes), inside: HashMap::new() }
    }

    /// The next request. Whether a segment's page is in memory is asked of `is_resident`.
    pub fn ask(&mut self, request: &Request, is_resident: impl Fn(Segment) -> bool) -> Step {
        match self {
            Cache::ByRule { segments, index, prefers_resident } => {
                if let Some((segment, order)) = index.get(&request.object) {
                    segments.touch(*segment, *order);
                    return Step::Read(*segment);
                }
                // As the engines do: a size without any segment takes the next larger one.
                for class in segments.classes_for(body_bytes(request)) {
                    let free = segments.take(class).map(|segment| (segment, false));
                    let found = free.or_else(|| {
                        let is_there =
                            |object: u64| index.get(&object).is_some_and(|(segment, _)| is_resident(*segment));
                        let most = if *prefers_resident { LOOKED_AT } else { 0 };
                        let victim = segments.victim_among(class, most, is_there)?;
                        Some((index.remove(&victim)?.0, true))
                    });
                    if let Some((segment, over_another)) = found {
                        let order = segments.enter(segment, request.object);
                        index.insert(request.object, (segment, order));
                        return Step::Write { segment, over_another };
                    }
                }
                Step::Pass
            }
            Cache::Planned { placements, inside } => match placements.get(request.object) {
                None => Step::Pass,
                Some(segment) => match inside.insert(segment, request.object) {
                    Some(object) if object == request.object => Step::Read(segment),
                    before => Step::Write { segment, over_another: before.is_some() },
                },
            },
        }
    }

    /// How often FBC halved all counts, and their mean now.
    pub fn counts(&self) -> (u64, f64) {
        match self {
            Cache::ByRule { segments, .. } => segments.counts(),
            Cache::Planned { .. } => (0, 0.0),
        }
    }
}

/// What replacements met (section 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// All of them.
    pub all: u64,
    /// The object's page was in memory: no I/O at once.
    pub resident: u64,
    /// It was not, and is written whole, so that nothing is read.
    pub whole: u64,
    /// The object's page had been written to since all was written to the disk the last time: one write more costs nothing.
    pub dirty: u64,
    /// Those whose segment lies before the last one's of its class, or more than 64 KiB behind it.
    pub jumps: u64,
}

/// What came of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Requests.
    pub requests: u64,
    /// Those that were there.
    pub hits: u64,
    /// Objects that were written over others.
    pub replaced: Replaced,
}

impl Came {
    /// Hits among the requests.
    pub fn hit_share(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }
}

/// When all that was written goes to the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cleaning {
    /// After so many bytes.
    After(u64),
    /// As often as that, by the requests' times.
    Every(Duration),
}

/// Puts requests to a cache, one after the other, with or without the I/O.
pub struct Replayer<'a> {
    /// Whose I/O is done; nothing is read or written without one.
    tree: Option<&'a WithMapped>,
    cleaning: Cleaning,
    /// Bytes, pages and time since the last cleaning, and how many there were.
    written: u64,
    dirty: HashSet<u64>,
    cleaned_at: Duration,
    cleanings: u64,
    /// Where the last object of each class was written over.
    before: [u64; 5],
    bytes: Vec<u8>,
}

impl<'a> Replayer<'a> {
    /// With this I/O.
    pub fn new(tree: Option<&'a WithMapped>, cleaning: Cleaning) -> Replayer<'a> {
        let (written, cleanings, before) = (0, 0, [0; 5]);
        let (dirty, cleaned_at) = (HashSet::new(), Duration::ZERO);
        Replayer { tree, cleaning, written, dirty, cleaned_at, cleanings, before, bytes: vec![0x5A; 8192] }
    }

    /// How often all that was written went to the disk.
    pub fn cleanings(&self) -> u64 {
        self.cleanings
    }

    /// What came of these requests. `each` is told how many there were so far. Errors: the system's, and its own.
    pub fn replay(
        &mut self,
        cache: &mut Cache,
        requests: &[Request],
        mut each: impl FnMut(usize) -> Result<(), LabError>,
    ) -> Result<Came, LabError> {
        let failed = |why: std::io::Error| LabError::failed("replaying requests over a mapped file", why);
        let mut came = Came { requests: requests.len() as u64, ..Came::default() };
        for (number, request) in requests.iter().enumerate() {
            let is_resident = |segment| self.tree.is_some_and(|tree| tree.is_resident(segment));
            match cache.ask(request, is_resident) {
                Step::Pass => {}
                Step::Read(segment) => {
                    came.hits += 1;
                    self.read(segment, request).map_err(failed)?;
                }
                Step::Write { segment, over_another } => {
                    if over_another {
                        self.count(segment, is_resident(segment), &mut came.replaced);
                    }
                    self.write(segment, request).map_err(failed)?;
                }
            }
            self.clean(request.time).map_err(failed)?;
            each(number)?;
        }
        Ok(came)
    }

    fn count(&mut self, segment: Segment, is_resident: bool, replaced: &mut Replaced) {
        replaced.all += 1;
        replaced.resident += u64::from(is_resident);
        replaced.whole += u64::from(!is_resident && segment.bytes() >= KERNEL_PAGE);
        replaced.dirty += u64::from(is_resident && pages(segment).all(|page| self.dirty.contains(&page)));
        if let Some(before) = self.before.get_mut(usize::from(segment.class)) {
            let is_near = (*before..*before + (64 << 10)).contains(&segment.offset());
            replaced.jumps += u64::from(!is_near);
            *before = segment.offset();
        }
    }

    fn read(&mut self, segment: Segment, request: &Request) -> std::io::Result<()> {
        let Some(tree) = self.tree else { return Ok(()) };
        let into = self.bytes.get_mut(..body_bytes(request)).unwrap_or_default();
        tree.call(Call::Read { path: &segment.path(), at: 0, into })
    }

    fn write(&mut self, segment: Segment, request: &Request) -> std::io::Result<()> {
        let Some(tree) = self.tree else { return Ok(()) };
        let bytes = self.bytes.get(..body_bytes(request)).unwrap_or_default();
        tree.call(Call::Write { path: &segment.path(), at: 0, bytes })?;
        self.written += segment.bytes();
        self.dirty.extend(pages(segment));
        Ok(())
    }

    fn clean(&mut self, now: Duration) -> std::io::Result<()> {
        let is_time = match self.cleaning {
            Cleaning::After(bytes) => self.written > 0 && self.written >= bytes,
            Cleaning::Every(time) => now.saturating_sub(self.cleaned_at) >= time,
        };
        let Some(tree) = self.tree.filter(|_| is_time) else { return Ok(()) };
        (self.written, self.cleaned_at) = (0, now);
        self.dirty.clear();
        self.cleanings += 1;
        tree.call(Call::Sync)
    }
}

/// The kernel's pages that a segment lies on.
fn pages(segment: Segment) -> impl Iterator<Item = u64> {
    segment.offset() / KERNEL_PAGE..(segment.offset() + segment.bytes()).div_ceil(KERNEL_PAGE)
}

/// What is written of an object beside the segment's header.
fn body_bytes(request: &Request) -> usize {
    (request.bytes as usize).saturating_sub(tinaja_store::device::mapped::HEADER_BYTES).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tinaja_store::device::tree::MemoryTree;

    use super::super::load::request;
    use super::*;

    /// What each rule makes of a loop that is longer than the file, and of one object that is asked for all the time.
    #[test]
    fn rules_differ_in_who_stays() {
        let asked: Vec<_> =
            (0..40_u64).flat_map(|round| [99, 99, 99, round % 10]).map(|one| request(one, 8000)).collect();
        let hits = |mut cache: Cache| {
            Replayer::new(None, Cleaning::After(0)).replay(&mut cache, &asked, |_| Ok(())).unwrap().hits
        };
        let by_rule = |rule| hits(Cache::by_rule(rule, 4 * 8192, false));
        assert_eq!(by_rule(Replacement::Lru), 119, "all of the popular one's, and none of the loop's");
        assert_eq!(by_rule(Replacement::FBC), 119);
        assert_eq!(hits(Cache::planned(&asked, 4 * 8192)), 119 + 3 * 3, "three of the loop stay");
    }

    /// Section 7: of LRU's candidates the first on a page in memory goes.
    #[test]
    fn pages_in_memory_are_preferred() {
        let mut cache = Cache::by_rule(Replacement::Lru, 4 * 8192, true);
        let mut ask = |object, resident: u64| cache.ask(&request(object, 8000), |segment| segment.offset() == resident);
        for object in 0..4 {
            ask(object, u64::MAX);
        }
        let written = |step| if let Step::Write { segment, over_another: true } = step { segment.offset() } else { 1 };
        assert_eq!(written(ask(4, 2 * 8192)), 2 * 8192);
        assert_eq!(written(ask(5, u64::MAX)), 0, "none is: the least recently used");
    }

    /// A real file, written and read; what is not in memory is told from what is.
    #[test]
    fn requests_are_carried_out_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mapped");
        let below: Arc<dyn Tree> = Arc::new(MemoryTree::default());
        let tree = WithMapped::over(below, &path, 64 << 10, 7, false).unwrap();
        let asked: Vec<_> = (0..300_u64).map(|n| request(n * n % 41, 300 + n * n % 41 * 150)).collect();
        for replacement in [Replacement::Lru, Replacement::FBC] {
            let mut cache = Cache::by_rule(replacement, 64 << 10, replacement == Replacement::Lru);
            let mut replayer = Replayer::new(Some(&tree), Cleaning::After(10_000));
            let came = replayer.replay(&mut cache, &asked, |_| Ok(())).unwrap();
            assert!(came.hits > 0 && came.replaced.all > 0, "{came:?}");
            assert_eq!(came.replaced.resident, came.replaced.all, "so small a file is in memory");
            assert!(came.replaced.dirty < came.replaced.all && replayer.cleanings() > 10, "{came:?}");
            // Never cleaned: whatever is written over was written to before, as the file was empty.
            let mut cache = Cache::by_rule(replacement, 64 << 10, false);
            let mut replayer = Replayer::new(Some(&tree), Cleaning::Every(Duration::from_secs(1)));
            let came = replayer.replay(&mut cache, &asked, |_| Ok(())).unwrap();
            assert_eq!((came.replaced.dirty, replayer.cleanings()), (came.replaced.all, 0), "all at one moment");
        }
        std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        let mut cache = Cache::by_rule(Replacement::Lru, 64 << 10, false);
        cache.ask(&asked[0], |_| false);
        let why = Replayer::new(Some(&tree), Cleaning::After(u64::MAX))
            .replay(&mut cache, &asked[..1], |_| Ok(()))
            .unwrap_err();
        assert!(why.to_string().contains("mapped file"), "{why}");
    }
}
