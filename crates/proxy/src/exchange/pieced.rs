//! Reading an object of which pieces are stored, and of which an origin sends what is missing between them.

use std::ops::{Range, RangeInclusive};

use bytes::Bytes;
use tinaja_store::Body;

use super::piece::Keeping;
use crate::bans::Bans;
use crate::origin::Connection;
use crate::storage::Storage;
use crate::stored::{Name, PieceList, find_piece};

/// What is missing of an object, and the connection that brings it: exactly these bytes.
pub(super) struct Gap {
    pub span: RangeInclusive<u64>,
    pub connection: Connection,
}

/// An object in pieces.
pub(super) struct Pieced {
    name: Name,
    list: PieceList,
    /// The list's own body, which may be the object's beginning.
    beginning: Body,
    /// The piece that is being read, up to where another begins or no more is wanted.
    open: Option<Open>,
    gap: Option<Gap>,
}

/// A piece that is being read.
enum Open {
    Beginning,
    Other(Body),
}

impl Pieced {
    pub fn new(name: Name, (list, beginning): (PieceList, Body), gap: Option<Gap>) -> Pieced {
        Pieced { name, list, beginning, open: None, gap }
    }

    /// Goes on elsewhere.
    pub fn leave(&mut self) {
        self.open = None;
    }

    /// The next of these bytes, if any are left. What comes from the origin is given to `kept` too. Dropped before it is
    /// ready, nothing is lost but what is being kept.
    pub async fn next(
        &mut self,
        (store, bans): (&Storage, &Bans),
        piece_bytes: usize,
        left: Range<u64>,
        kept: &mut Option<Keeping>,
    ) -> Result<Option<Bytes>, String> {
        if left.is_empty() {
            return Ok(None);
        }
        let open = match &mut self.open {
            Some(Open::Beginning) => Some(&mut self.beginning),
            Some(Open::Other(body)) => Some(body),
            None => None,
        };
        if let Some(body) = open {
            if let Some(bytes) = body.next(piece_bytes).await.map_err(|error| error.to_string())? {
                return Ok(Some(bytes));
            }
            self.open = None;
        }
        if let Some(gap) = self.gap.as_mut().filter(|gap| gap.span.contains(&left.start)) {
            let bytes = gap.connection.read().await.map_err(|failure| failure.to_string())?;
            let mut bytes = bytes.ok_or("the origin's answer ended early")?;
            bytes.truncate(usize::try_from(gap.span.end() - left.start + 1).unwrap_or(usize::MAX));
            if let Some(kept) = kept {
                kept.write(&bytes).await;
            }
            bytes.truncate(usize::try_from(left.end - left.start).unwrap_or(usize::MAX));
            return Ok(Some(bytes));
        }
        self.open((store, bans), piece_bytes, left).await
    }

    /// Opens the piece at the first of these bytes, and reads the first of it.
    async fn open(
        &mut self,
        (store, bans): (&Storage, &Bans),
        piece_bytes: usize,
        left: Range<u64>,
    ) -> Result<Option<Bytes>, String> {
        let piece = *self.list.at(left.start).ok_or("that part of it is not stored")?;
        let mut open = match self.list.is_beginning(&piece) {
            true => (self.beginning.len() == Some(piece.last + 1)).then_some(Open::Beginning),
            false => find_piece(store, bans, &self.name, &piece).await.map(Open::Other),
        };
        let body = match &mut open {
            Some(Open::Beginning) => &mut self.beginning,
            Some(Open::Other(body)) => body,
            None => return Err("a piece of it is not stored any more".to_owned()),
        };
        let end = left.end.min(piece.last + 1);
        // What the origin is asked for anyway is not read from the disk too.
        let gap = self.gap.as_ref().map(|gap| *gap.span.start()).filter(|start| (left.start..end).contains(start));
        let end = gap.unwrap_or(end);
        let text = |error: tinaja_store::ReadError| error.to_string();
        body.seek(left.start - piece.first..end - piece.first).map_err(text)?;
        let bytes = body.next(piece_bytes).await.map_err(text)?.ok_or("a piece of it was empty")?;
        self.open = open;
        Ok(Some(bytes))
    }

    /// The connection, once it has brought all that it is to bring.
    pub fn finished(&mut self) -> Option<Connection> {
        let done = self.gap.as_mut().is_some_and(|gap| gap.connection.is_done());
        if done { self.gap.take().map(|gap| gap.connection) } else { None }
    }
}
