//! gRPC through the proxy, HTTP/2 on both sides: messages go both ways at once, and the status comes in trailers. Without them every call
//! fails: they ended here once, as they do over HTTP/1, and TE with them, so that servers refused the calls.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Origin, Proxy};

/// A message, with its flag and length before it.
fn message(text: &str) -> Bytes {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    [&[0], &length[..], text.as_bytes()].concat().into()
}

/// A server that says each message back as it comes. At `/fail` it ends the call with its head.
async fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(call(request, respond));
                }
            });
        }
    });
    address
}

async fn call(request: Request<RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    let te = request.headers().get("te").map_or("none", |te| te.to_str().unwrap()).to_owned();
    let head = || Response::builder().header("content-type", "application/grpc");
    if request.uri().path() == "/fail" {
        let head = head().header("grpc-status", "5").header("grpc-message", "not here").body(()).unwrap();
        respond.send_response(head, true).unwrap();
        return;
    }
    let mut say = respond.send_response(head().body(()).unwrap(), false).unwrap();
    let mut content = request.into_body();
    while let Some(Ok(piece)) = content.data().await {
        content.flow_control().release_capacity(piece.len()).unwrap();
        say.send_data(piece, false).unwrap();
    }
    let mut trailers = HeaderMap::new();
    for (name, value) in [("grpc-status", "0"), ("x-te", &*te), ("set-cookie", "a=1"), ("content-length", "3")] {
        trailers.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    say.send_trailers(trailers).unwrap();
}

async fn connect(proxy: &Proxy) -> SendRequest<Bytes> {
    let (requests, connection) = h2::client::handshake(TcpStream::connect(proxy.address).await.unwrap()).await.unwrap();
    tokio::spawn(connection);
    requests
}

async fn begin(
    requests: SendRequest<Bytes>,
    proxy: &Proxy,
    path: &str,
) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
    let request = Request::post(format!("http://{}{path}", proxy.address))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    requests.ready().await.unwrap().send_request(request.body(()).unwrap(), false).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_go_both_ways_and_the_status_comes_behind_them() {
    let proxy = Proxy::before(&[server().await], |upstream| upstream.http2 = true);
    let (answer, mut say) = begin(connect(&proxy).await, &proxy, "/echo").await;
    let mut answer = answer.await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/grpc");
    for text in ["one", "two", "three"] {
        // Each comes back before the next one is sent.
        say.send_data(message(text), false).unwrap();
        let mut got = Vec::new();
        while got.len() < message(text).len() {
            let piece = answer.body_mut().data().await.unwrap().unwrap();
            answer.body_mut().flow_control().release_capacity(piece.len()).unwrap();
            got.extend_from_slice(&piece);
        }
        assert_eq!(got, message(text));
    }
    say.send_data(Bytes::new(), true).unwrap();
    assert!(answer.body_mut().data().await.is_none());
    let trailers = answer.body_mut().trailers().await.unwrap().expect("they end the call");
    let names: Vec<_> = trailers.keys().map(|name| name.as_str()).collect();
    assert_eq!(names, ["grpc-status", "x-te"], "and no field that a head alone may say");
    assert_eq!((&trailers["grpc-status"], &trailers["x-te"]), (&"0".parse().unwrap(), &"trailers".parse().unwrap()));
}

/// Clients take an empty piece of content behind such a head for a call without a status.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_at_once_ends_with_its_head() {
    let proxy = Proxy::before(&[server().await], |upstream| upstream.http2 = true);
    let requests = connect(&proxy).await;
    for sends_all in [true, false] {
        let (answer, mut say) = begin(requests.clone(), &proxy, "/fail").await;
        if sends_all {
            // The call may have ended by now: its server waits for no message.
            let _ = say.send_data(message("x"), true);
        }
        let answer = answer.await.unwrap();
        assert_eq!((&answer.headers()["grpc-status"], answer.status().as_u16()), (&"5".parse().unwrap(), 200));
        assert!(answer.body().is_end_stream(), "{sends_all}");
    }
}

/// Over HTTP/1, with what is stored, and for who does not ask for them, trailers end here as before.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_gets_them() {
    let http1 = Origin::start(|request, stream| {
        let te = request.field("te").unwrap_or("none".into());
        crate::support::reply(stream, request, 200, "", te.as_bytes())
    });
    let proxy = Proxy::reverse(&http1);
    let (answer, mut say) = begin(connect(&proxy).await, &proxy, "/").await;
    say.send_data(message("x"), true).unwrap();
    let mut answer = answer.await.unwrap();
    assert_eq!(
        answer.body_mut().data().await.unwrap().unwrap(),
        "none",
        "an origin that is asked by HTTP/1.1 hears of no TE"
    );
    assert!(answer.body_mut().trailers().await.unwrap().is_none());

    let proxy = Proxy::before(&[server().await], |upstream| upstream.http2 = true);
    let posted = proxy.request("POST", &format!("http://{}/echo", proxy.address), "Content-Length: 0\r\n");
    assert!(posted.status == 200 && posted.whole && posted.field("grpc-status").is_empty(), "{}", posted.head);
    let get = Request::get(format!("http://{}/echo", proxy.address)).header("te", "trailers").body(()).unwrap();
    let (answer, _) = connect(&proxy).await.ready().await.unwrap().send_request(get, true).unwrap();
    let mut answer = answer.await.unwrap();
    while let Some(piece) = answer.body_mut().data().await {
        assert!(piece.unwrap().is_empty());
    }
    assert!(answer.body_mut().trailers().await.unwrap().is_none());
}
