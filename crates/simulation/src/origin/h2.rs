//! The origin over HTTP/2: each request is a stream.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Answer, Body, Content, Origin, pieces};
use crate::frames::Tags;
use crate::network::End;
use crate::random::Random;

/// Requests that it answers at once.
const STREAMS: u32 = 20;

impl Origin {
    pub(super) async fn over_http2(self: Arc<Self>, mut end: End) {
        let mut random = self.random.lock().fork();
        let tags = end.tag_streams();
        let mut builder = Builder::new();
        builder.max_concurrent_streams(STREAMS);
        let Ok(mut connection) = builder.handshake::<_, Bytes>(end).await else { return };
        let mut streams = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(_) = streams.join_next(), if !streams.is_empty() => {
                    // Now and then it takes no more, as servers do that have answered enough on one connection.
                    if random.per_mille(40) {
                        self.events.note("goes away", &[]);
                        connection.graceful_shutdown();
                    }
                }
                accepted = connection.accept() => {
                    let Some(Ok((request, respond))) = accepted else { break };
                    streams.spawn(self.clone().stream(request, respond, tags.clone(), random.fork()));
                }
            }
        }
        // What is still thought about is for nobody.
        drop(connection);
        streams.shutdown().await;
    }

    async fn stream(
        self: Arc<Self>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        tags: Tags,
        mut random: Random,
    ) {
        let (parts, mut content) = request.into_parts();
        while let Some(piece) = content.data().await {
            let Ok(piece) = piece else { return };
            let _ = content.flow_control().release_capacity(piece.len());
        }
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let fields = parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        let asked = self.asked(parts.method.to_string(), parts.uri.path(), fields);
        let Some(answer) = self.thinks(&asked, &mut random).await else {
            return sleep(Duration::from_secs(600)).await;
        };
        let Answer { status, fields, content, tag } = answer;
        let mut head = Response::builder().status(status);
        for (name, value) in fields {
            head = head.header(name, value);
        }
        let length = match &content {
            Content::None => None,
            Content::Text(text) => Some(text.len() as u64),
            Content::Announced(length) => *length,
            Content::Body(body) => (!body.chunked).then_some(body.to - body.from),
        };
        if let Some(length) = length {
            head = head.header("content-length", length);
        }
        if let Some(tag) = tag {
            tags.lock().insert(u32::from(respond.stream_id()), tag);
        }
        let is_all = match &content {
            Content::None | Content::Announced(_) => true,
            Content::Text(text) => text.is_empty(),
            Content::Body(body) => body.sends() == 0 && body.cut.is_none(),
        };
        let stream = u32::from(respond.stream_id());
        let Ok(mut sending) = respond.send_response(head.body(()).expect("an answer"), is_all) else {
            tags.lock().remove(&stream).inspect(|tag| self.oracle.lock().was_lost(*tag));
            return;
        };
        match content {
            _ if is_all => {}
            Content::None | Content::Announced(_) => {}
            Content::Text(text) => _ = sending.send_data(Bytes::from_static(text.as_bytes()), true),
            Content::Body(body) => send_body(body, &mut sending, &mut random).await,
        }
    }
}

async fn send_body(body: Body, sending: &mut SendStream<Bytes>, random: &mut Random) {
    let (dawdles, pieces) = pieces(body, random);
    let (mut at, end) = (body.from, body.from + body.sends());
    for count in pieces {
        let mut piece = body.version.body(at, count);
        at += count;
        while !piece.is_empty() {
            sending.reserve_capacity(piece.len());
            let Some(Ok(room)) = poll_fn(|cx| sending.poll_capacity(cx)).await else { return };
            if room == 0 {
                continue;
            }
            let part = piece.split_to(room.min(piece.len()));
            let ends = piece.is_empty() && at == end && body.cut.is_none();
            if sending.send_data(part, ends).is_err() {
                return;
            }
        }
        if dawdles {
            sleep(random.millis(1..2000)).await;
        }
    }
    if body.cut.is_some() {
        sending.send_reset(Reason::INTERNAL_ERROR);
    }
}
