//! What `serve` says when it starts: how to point a client at it, and what it uses.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytesize::ByteSize;
use tinaja_proxy::mirrors::Mirror;
use tinaja_proxy::{Listener, Mode};
use tinaja_store::Stats;

/// What there is to say.
#[derive(Debug)]
pub struct Welcome {
    /// Where it listens, and for whom.
    pub listeners: Vec<Listener>,
    /// The cache's directory.
    pub cache: String,
    /// What is known of the cache; none where it is still another process's.
    pub stats: Option<Stats>,
    /// Where that size comes from.
    pub disk_why: &'static str,
}

impl Welcome {
    /// The text, a few lines.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (mode, listeners) in self.modes() {
            let listen: Vec<String> =
                listeners.iter().map(|listener| format!("{}://{}", scheme(listener), listener.address)).collect();
            let url = listeners.first().map(|first| format!("{}://{}", scheme(first), reachable(first.address)));
            let url = url.unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = match mode {
                Mode::Reverse(routes) if routes.origins().next().is_none() => {
                    writeln!(text, "Tinaja serves mirrors on {}", listen.join(", "))
                }
                Mode::Reverse(routes) => {
                    let mut origins: Vec<String> = routes.origins().map(ToString::to_string).collect();
                    origins.sort();
                    origins.dedup();
                    writeln!(text, "Tinaja is a reverse proxy for {} on {}", origins.join(", "), listen.join(", "))
                        .and_then(|()| writeln!(text, "  curl       curl --include {url}/"))
                }
                Mode::Transparent(by) => {
                    let listen: Vec<String> = listeners.iter().map(|listener| listener.address.to_string()).collect();
                    writeln!(text, "Tinaja is a transparent proxy on {}, by {by}", listen.join(", ")).and_then(|()| {
                        writeln!(
                            text,
                            "  nftables   tinaja intercept-hints --config FILE --from INTERFACE prints what sends connections here"
                        )
                    })
                }
                Mode::Forward => writeln!(text, "Tinaja is a forward proxy on {}", listen.join(", "))
                    .and_then(|()| text.write_str(&forward_clients(&url))),
            };
        }
        text.push_str(&self.mirrors());
        if self.listeners.iter().any(|listener| listener.offline) {
            text.push_str("  offline    no origin is asked; clients get what is in the cache, fresh or stale\n");
        }
        // Writing to a String cannot fail.
        let _ = match &self.stats {
            Some(stats) => writeln!(
                text,
                "  cache      {}: {} on disk ({}), by {}\n  memory     {} for the index, {} for hot objects",
                self.cache,
                size(stats.capacity_bytes),
                self.disk_why,
                stats.engine,
                size(stats.index_bytes),
                size(stats.hot_budget_bytes),
            ),
            None => writeln!(text, "  cache      {}: taken over from the running server", self.cache),
        };
        text.push_str("  stop       Ctrl-C; the cache is kept\n");
        text
    }

    /// How clients are pointed at mirrors.
    fn mirrors(&self) -> String {
        let Some(first) = self.listeners.first() else { return String::new() };
        let url = match first.mirrors.public_url() {
            Some(url) => url.to_string(),
            None => format!("{}://{}", scheme(first), reachable(first.address)),
        };
        let line = |mirror: &Mirror| {
            let (url, origin) = (format!("{url}{}", mirror.path), &mirror.origin);
            match mirror.kind {
                Some(kind) => format!("  {:<10} {}\n", kind.name(), kind.client(&url)),
                None => format!("  mirror     {url} of {origin}\n"),
            }
        };
        first.mirrors.iter().map(line).collect()
    }

    /// The listeners of each mode, in their order.
    fn modes(&self) -> Vec<(&Mode, Vec<&Listener>)> {
        let mut modes: Vec<(&Mode, Vec<&Listener>)> = Vec::new();
        for listener in &self.listeners {
            match modes.iter_mut().find(|(other, _)| **other == listener.mode) {
                Some((_, listeners)) => listeners.push(listener),
                None => modes.push((&listener.mode, vec![listener])),
            }
        }
        modes
    }
}

fn scheme(listener: &Listener) -> &'static str {
    if listener.certificates.is_empty() { "http" } else { "https" }
}

fn forward_clients(url: &str) -> String {
    format!(
        "  curl       curl --proxy {url} http://deb.debian.org/
  apt        echo 'Acquire::http::Proxy \"{url}\";' | sudo tee /etc/apt/apt.conf.d/02tinaja
  others     export http_proxy={url} https_proxy={url}\n"
    )
}

/// A listener on every address is reached on this machine by loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn size(bytes: u64) -> bytesize::Display {
    ByteSize::b(bytes).display().iec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome(listen: &str, origin: Option<&str>) -> String {
        let address = listen.parse().unwrap();
        let reverse = origin.map(|origin| Listener::reverse(address, origin.parse().unwrap()));
        Welcome {
            listeners: vec![reverse.unwrap_or(Listener::forward(address))],
            cache: "/var/cache/tinaja".into(),
            stats: Some(Stats {
                engine: "generational",
                capacity_bytes: 10 << 30,
                index_bytes: 3 << 20,
                hot_budget_bytes: 61 << 20,
                ..Stats::default()
            }),
            disk_why: "as set",
        }
        .text()
    }

    #[test]
    fn clients_are_told_the_address_in_use() {
        let text = welcome("127.0.0.1:8080", None);
        for line in [
            "curl --proxy http://127.0.0.1:8080 ",
            "Acquire::http::Proxy \"http://127.0.0.1:8080\";",
            "export http_proxy=http://127.0.0.1:8080 https_proxy=http://127.0.0.1:8080",
            "/var/cache/tinaja: 10.0 GiB on disk (as set), by generational",
            "memory     3.0 MiB for the index, 61.0 MiB for hot objects",
        ] {
            assert!(text.contains(line), "{line:?} in {text}");
        }
        assert!(welcome("0.0.0.0:3128", None).contains("--proxy http://127.0.0.1:3128"));
        assert!(welcome("[::]:3128", None).contains("--proxy http://[::1]:3128"));
    }

    #[test]
    fn a_reverse_proxy_names_its_origin() {
        let text = welcome("127.0.0.1:8080", Some("http://10.0.0.1:80"));
        assert!(text.contains("reverse proxy for http://10.0.0.1:80 on http://127.0.0.1:8080"), "{text}");
        assert!(!text.contains("--proxy"), "{text}");
    }
}
