//! Stores that cannot keep or cannot read: what clients get all the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod common;

use std::ops::Range;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use common::altered::Altered;
use common::narrow::Narrow;
use common::*;
use pingora_cache::storage::{HitHandler, MissHandler, Storage};
use tinaja_pingora::{RELAY_MOST_BYTES, TinajaStorage};
use tinaja_store::*;

const PIECE: usize = 64 * 1024;

async fn begin(storage: &'static TinajaStorage) -> (MissHandler, HitHandler) {
    let miss = storage.get_miss_handler(&key("/n"), &plain(), &span()).await.unwrap();
    let tag = miss.streaming_write_tag().map(<[u8]>::to_vec);
    let own = storage.lookup_streaming_write(&key("/n"), tag.as_deref(), &span()).await.unwrap().unwrap().1;
    (miss, own)
}

#[tokio::test]
async fn writing_and_reading_in_one_task_never_wait_for_each_other() {
    let (mut miss, mut own) = begin(over(Narrow::default())).await;
    let sent = body(1, 300 * PIECE);
    let mut got = Vec::new();
    // As Pingora does: a few pieces are written before the reader has its turn.
    for batch in sent.chunks(4 * PIECE) {
        for piece in batch.chunks(PIECE) {
            miss.write_body(Bytes::copy_from_slice(piece), false).await.unwrap();
        }
        for _ in 0..4 {
            got.extend_from_slice(&own.read_body().await.unwrap().unwrap());
        }
    }
    miss.finish().await.unwrap();
    got.extend(rest(&mut own).await.unwrap());
    assert!(got == sent);
}

#[tokio::test]
async fn a_reader_in_another_task_is_not_forgotten() {
    let (mut miss, mut own) = begin(over(Narrow::default())).await;
    let sent = body(1, 300 * PIECE);
    let reading = tokio::spawn(async move { rest(&mut own).await.unwrap() });
    for piece in sent.chunks(PIECE) {
        miss.write_body(Bytes::copy_from_slice(piece), false).await.unwrap();
    }
    miss.finish().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(20), reading).await.unwrap().unwrap() == sent);
}

#[tokio::test]
async fn a_hungry_client_is_woken_though_its_fill_waits_for_a_slow_follower() {
    let storage = over(Narrow::default());
    let (mut miss, mut own) = begin(storage).await;
    let (_, mut slow) = found(storage, &key("/n")).await.unwrap();
    let sent = body(1, 20 * PIECE);
    let hungry = tokio::spawn(async move { rest(&mut own).await.unwrap() });
    let following = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(piece) = slow.read_body().await.unwrap() {
            all.extend_from_slice(&piece);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        all
    });
    for piece in sent.chunks(PIECE) {
        miss.write_body(Bytes::copy_from_slice(piece), false).await.unwrap();
        // The reader's turn: it takes what there is and waits for more.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    miss.finish().await.unwrap();
    let both = async { (hungry.await.unwrap(), following.await.unwrap()) };
    let (hungry, following) = tokio::time::timeout(Duration::from_secs(10), both).await.unwrap();
    assert!(hungry == sent && following == sent);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_costs_a_bounded_sum_and_stops_nobody_else() {
    let storage = over(Narrow::default());
    let (mut miss, mut own) = begin(storage).await;
    let (_, mut other) = found(storage, &key("/n")).await.unwrap();
    let sent = body(1, RELAY_MOST_BYTES + 100 * PIECE);
    let reading = tokio::spawn(async move { rest(&mut other).await.unwrap() });
    for piece in sent.chunks(PIECE) {
        miss.write_body(Bytes::copy_from_slice(piece), false).await.unwrap();
    }
    miss.finish().await.unwrap();
    assert!(reading.await.unwrap() == sent);
    let given_up = own.read_body().await.unwrap_err();
    assert!(given_up.to_string().contains("too slow"), "{given_up}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_relayed_up_to_the_limit() {
    let (mut miss, mut own) = begin(over(Narrow::default())).await;
    let sent = body(1, RELAY_MOST_BYTES - PIECE);
    for piece in sent.chunks(PIECE) {
        miss.write_body(Bytes::copy_from_slice(piece), false).await.unwrap();
    }
    miss.finish().await.unwrap();
    assert!(rest(&mut own).await.unwrap() == sent);
}

#[tokio::test]
async fn a_client_that_left_does_not_hold_the_fill() {
    let (mut miss, own) = begin(over(Narrow::default())).await;
    drop(own);
    for piece in body(1, 100 * PIECE).chunks(PIECE) {
        miss.write_body(Bytes::copy_from_slice(piece), false).await.unwrap();
    }
    miss.finish().await.unwrap();
}

/// The bodies of [`breaking`].
struct BreakingBody(usize);

impl BodySource for BreakingBody {
    fn length(&self) -> Option<u64> {
        Some(1_000_000)
    }

    fn seek(&mut self, _: Range<u64>) -> Result<(), ReadError> {
        Ok(())
    }

    fn poll_next(&mut self, _: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        let Some(left) = self.0.checked_sub(1) else {
            return Poll::Ready(Err(ReadError::Gone));
        };
        self.0 = left;
        Poll::Ready(Ok(Some(vec![0; max].into())))
    }
}

/// A store whose bodies break off after some pieces, and which can replace no head.
fn breaking(pieces: usize) -> Altered {
    Altered {
        on_lookup: Box::new(move |inner, key, deadline| {
            let Lookup::Here(hit) = inner.lookup(key, deadline) else {
                return Lookup::Absent;
            };
            let body = Body::from_source(Box::new(BreakingBody(pieces)));
            Lookup::Wait(Box::pin(std::future::ready(Some(Hit { body, source: Source::Disk, ..hit }))))
        }),
        on_update: Box::new(move |_, _, _| Box::pin(std::future::ready(Ok(Updated::NotStored(WhyNot::Device))))),
        ..Altered::default()
    }
}

#[tokio::test]
async fn an_object_whose_first_piece_cannot_be_read_is_a_miss() {
    let storage = over(breaking(0));
    fill(storage, &key("/b"), &plain(), &body(1, 10)).await;
    assert!(found(storage, &key("/b")).await.is_none());
}

#[tokio::test]
async fn an_object_that_goes_while_it_is_read_is_an_error_and_no_short_end() {
    let storage = over(breaking(2));
    fill(storage, &key("/b"), &plain(), &body(1, 10)).await;
    let (_, mut hit) = found(storage, &key("/b")).await.unwrap();
    assert!(rest(&mut hit).await.is_err() && hit.read_body().await.is_err());
}

#[tokio::test]
async fn what_cannot_be_marked_stale_is_removed() {
    let storage = over(breaking(1));
    fill(storage, &key("/b"), &plain(), &body(1, 10)).await;
    let compact = key("/b").to_compact();
    assert!(!storage.update_meta(&key("/b"), &plain(), &span()).await.unwrap());
    let target = pingora_cache::storage::PurgeTarget::Active(&compact);
    let outcome = storage.expire(target, &span()).await.unwrap();
    assert_eq!(outcome, pingora_cache::storage::PurgeOutcome::Purged(None));
    assert!(found(storage, &key("/b")).await.is_none());
}
