//! Rule 9 for readers that do not keep up with a write that cannot be stored.

use std::time::{Duration, Instant};

use super::*;
use crate::terms::ReadError;

/// Rule 9: an object that turns out too large goes on for the reader that keeps up, without a pause for those that are
/// still reading what was stored of it. These get right bytes and are told where they end.
pub fn a_slow_reader_of_what_is_not_stored_is_left_behind(harness: &dyn Harness) {
    let subject = harness.fresh(Size::Tiny);
    let store = subject.store();
    let (pieces, piece) = (640, bytes_of(5, 100_000));
    let mut writer = store.put(&key(1), "h".into(), Hint::default());
    let mut hits: Vec<_> = (0..3).map(|_| (writer.follow(), 0_usize)).collect();
    let began = Instant::now();
    for number in 0..pieces {
        block_on(writer.write(piece.clone()));
        // One keeps up, one reads a little of each piece, and one nothing at all.
        for ((hit, read), most) in hits.iter_mut().zip([piece.len(), 10_000, 0]) {
            let end = *read + most;
            while *read < end
                && let Some(got) = next(hit, read, end - *read, &piece)
            {
                assert!(got == Ok(()) || most < piece.len(), "{got:?} in piece {number} for the one that keeps up");
                if got.is_err() {
                    break;
                }
            }
        }
    }
    assert!(began.elapsed() < Duration::from_secs(25), "slower than a lease");
    let stored = matches!(block_on(writer.commit()), Commit::Stored { .. });
    for (number, (mut hit, mut read)) in hits.into_iter().enumerate() {
        let ended = loop {
            match next(&mut hit, &mut read, usize::MAX, &piece) {
                Some(Ok(())) => {}
                ended => break ended,
            }
        };
        match ended {
            None => assert_eq!(read, pieces * piece.len(), "a short end"),
            Some(error) => assert!(number > 0 && !stored && error == Err(ReadError::Behind), "{number}: {error:?}"),
        }
    }
}

/// Read on and compare; `None` at the end.
fn next(hit: &mut Hit, read: &mut usize, most: usize, piece: &Bytes) -> Option<Result<(), ReadError>> {
    let got = match block_on(hit.body.next(most.min(piece.len()))) {
        Ok(got) => got?,
        Err(error) => return Some(Err(error)),
    };
    let at = *read % piece.len();
    let expected = piece[at..].iter().chain(piece.iter());
    assert!(got.iter().eq(expected.take(got.len())), "wrong bytes from {read}");
    *read += got.len();
    Some(Ok(()))
}
