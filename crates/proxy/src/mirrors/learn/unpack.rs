//! What is compressed by gzip or xz, as text, piece by piece and in bounded memory.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

use flate2::write::MultiGzDecoder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use xz4rust::{XzDecoder, XzNextBlockResult};

/// What is unpacked at once, of which by gzip at most some thousand times as much comes.
const STEP: usize = 1024;
/// Text shrinks to a tenth. What grows more than so many times, past a beginning, is made to.
const MOST_GROWTH: u64 = 64;
const GROWTH_FROM: u64 = 1 << 20;
/// Text that is read at most, five times that of the largest archives.
const MOST_TEXT: u64 = 256 << 20;

/// The window of xz at most: as much as `xz` takes by default, and as the indexes of Debian have.
const MOST_WINDOW: usize = 8 << 20;
/// So many are unpacked by xz at once, for all mirrors, which take 33 MiB.
pub(super) const MOST_AT_ONCE: usize = 4;

const GZIP: &[u8] = b"\x1f\x8b";
const XZ: &[u8] = b"\xfd7zXZ\0";

/// Unpacks one body by its first bytes. Memory: 1.1 MB at most by gzip, 8.2 MiB by xz.
pub(super) struct Unpack {
    state: State,
    /// Who unpacks by xz has one of these.
    windows: Arc<Semaphore>,
    is_put_off: bool,
}

enum State {
    /// Not known yet: the first bytes.
    Begun(Vec<u8>),
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>, Growth),
    Xz(Box<Xz>, Growth),
    /// By something else, malformed, or more than is read.
    Other,
}

struct Xz {
    decoder: Box<XzDecoder<'static>>,
    text: Vec<u8>,
    /// One stream has ended; there may be zeros and another behind it.
    is_between: bool,
    _window: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Growth {
    taken: u64,
    made: u64,
}

impl Unpack {
    /// `windows` says how many may use xz at once.
    pub fn new(windows: Arc<Semaphore>) -> Unpack {
        Unpack { state: State::Begun(Vec::new()), windows, is_put_off: false }
    }

    /// Whether this one was not read because too many others are.
    pub fn is_put_off(&self) -> bool {
        self.is_put_off
    }

    /// Gives the text of the next piece: all that there is, for whoever has an index may ask for a file at once.
    pub fn push(&mut self, piece: &[u8], give: &mut dyn FnMut(&[u8])) {
        if let State::Begun(first) = &mut self.state {
            first.extend_from_slice(piece);
            let may_be = |magic: &[u8]| first.len() < magic.len() && magic.starts_with(first);
            if may_be(GZIP) || may_be(XZ) {
                return;
            }
            let first = std::mem::take(first);
            self.state = self.begin(&first);
            return self.unpack(&first, give);
        }
        self.unpack(piece, give);
    }

    /// There are no more pieces.
    pub fn end(&mut self, give: &mut dyn FnMut(&[u8])) {
        if let State::Gzip(decoder, _) = &mut self.state
            && decoder.try_finish().is_ok()
        {
            give(decoder.get_ref());
        }
        self.state = State::Other;
    }

    fn begin(&mut self, first: &[u8]) -> State {
        if first.starts_with(GZIP) {
            return State::Gzip(Box::new(MultiGzDecoder::new(Vec::new())), Growth::default());
        }
        if first.starts_with(XZ) {
            let window = self.windows.clone().try_acquire_owned();
            self.is_put_off = window.is_err();
            return window.map_or(State::Other, |window| State::Xz(Box::new(Xz::new(window)), Growth::default()));
        }
        let is_text = first.first().is_some_and(|byte| byte.is_ascii_graphic() || *byte == b'\n');
        if is_text { State::Plain } else { State::Other }
    }

    fn unpack(&mut self, piece: &[u8], give: &mut dyn FnMut(&[u8])) {
        let is_good = match &mut self.state {
            State::Plain => {
                give(piece);
                true
            }
            State::Gzip(decoder, growth) => gunzip(decoder, piece, &mut |taken, text| growth.gives(taken, text, give)),
            State::Xz(xz, growth) => xz.push(piece, &mut |taken, text| growth.gives(taken, text, give)),
            State::Begun(_) | State::Other => true,
        };
        if !is_good {
            self.state = State::Other;
        }
    }
}

impl Growth {
    /// Gives text that so many bytes became. Whether more of it is worth reading.
    fn gives(&mut self, taken: usize, text: &[u8], give: &mut dyn FnMut(&[u8])) -> bool {
        self.taken += taken as u64;
        self.made += text.len() as u64;
        let is_wanted = self.made <= MOST_TEXT.min(GROWTH_FROM + self.taken * MOST_GROWTH);
        if is_wanted {
            give(text);
        }
        is_wanted
    }
}

/// Whether all of it could be unpacked, and was wanted.
fn gunzip(decoder: &mut MultiGzDecoder<Vec<u8>>, piece: &[u8], give: &mut dyn FnMut(usize, &[u8]) -> bool) -> bool {
    piece.chunks(STEP).all(|step| {
        let is_good = decoder.write_all(step).is_ok() && decoder.flush().is_ok();
        is_good && give(step.len(), &std::mem::take(decoder.get_mut()))
    })
}

impl Xz {
    fn new(window: OwnedSemaphorePermit) -> Xz {
        let decoder = XzDecoder::in_heap_with_alloc_dict_size(0, MOST_WINDOW);
        Xz { decoder, text: vec![0; 16 * STEP], is_between: false, _window: window }
    }

    /// Whether all of it could be unpacked, and was wanted.
    fn push(&mut self, mut piece: &[u8], give: &mut dyn FnMut(usize, &[u8]) -> bool) -> bool {
        loop {
            if self.is_between {
                let zeros = piece.iter().take_while(|byte| **byte == 0).count();
                piece = piece.get(zeros..).unwrap_or_default();
                if piece.is_empty() {
                    return true;
                }
                self.decoder.reset();
                self.is_between = false;
            }
            if piece.is_empty() {
                return true;
            }
            let Ok(step) = self.decoder.decode(piece, &mut self.text) else { return false };
            let (taken, made) = (step.input_consumed(), step.output_produced());
            piece = piece.get(taken..).unwrap_or_default();
            self.is_between = matches!(step, XzNextBlockResult::EndOfStream(..));
            if !give(taken, self.text.get(..made).unwrap_or_default()) {
                return false;
            }
        }
    }
}

impl fmt::Debug for Unpack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unpack")
    }
}
