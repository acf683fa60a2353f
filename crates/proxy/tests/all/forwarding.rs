//! What origins behind a reverse proxy are told of its clients, whatever these say of themselves.

use tinaja_proxy::{Forwarding, Mode, Routes};

use crate::support::{Origin, Proxy, reply};

const SAYS: &str = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nForwarded: for=\"6.6.6.6\r\n";

#[test]
fn origins_get_the_fields_that_were_chosen_and_no_others() {
    let origin = Origin::start(|request, stream| {
        let said = ["x-forwarded-for", "x-forwarded-proto", "forwarded"].map(|name| request.field(name));
        let said = said.map(|value| value.unwrap_or_else(|| "-".into())).join(" | ");
        reply(stream, request, 200, "Cache-Control: no-store\r\n", said.as_bytes())
    });
    let (v4, v6) = ("for=203.0.113.7;proto=http", "for=\"[2001:db8::7]\";proto=http");
    for (forwarding, x_forwarded, has_forwarded) in [
        (Forwarding::XForwarded, true, false),
        (Forwarding::Forwarded, false, true),
        (Forwarding::Both, true, true),
        (Forwarding::None, false, false),
    ] {
        let url = origin.url("").parse().unwrap();
        let proxy = Proxy::with(|config| {
            config.listeners[0].mode = Mode::Reverse(Routes::to(url));
            config.listeners[0].forwarding = forwarding;
            config.listeners[0].proxy_protocol = vec!["127.0.0.0/8".parse().unwrap()];
        });
        for (family, client, element) in [("TCP4", "203.0.113.7", v4), ("TCP6", "2001:db8::7", v6)] {
            // With the cache, and past it.
            for (method, of_cache) in [("GET", true), ("DELETE", false)] {
                let mut connected = proxy.client();
                let to = if family == "TCP4" { "127.0.0.1" } else { "::1" };
                connected.send(format!("PROXY {family} {client} {to} 9 80\r\n"));
                connected.send(format!("{method} / HTTP/1.1\r\nHost: a.example\r\n{SAYS}\r\n"));
                let said = connected.read(method).unwrap().text();
                let (chain, proto) = match x_forwarded {
                    true => (format!("6.6.6.6, {client}"), "http"),
                    false => ("-".to_owned(), "-"),
                };
                let forwarded = match (has_forwarded, forwarding) {
                    (true, _) => element,
                    // As it always was.
                    (false, Forwarding::XForwarded) if !of_cache => "for=\"6.6.6.6",
                    _ => "-",
                };
                assert_eq!(said, format!("{chain} | {proto} | {forwarded}"), "{forwarding:?} {method}");
            }
        }
    }
}
