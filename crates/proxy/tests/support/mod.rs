//! A proxy to test, and stores that do one thing otherwise than they should.
#![allow(dead_code, unused_imports)]

mod altered;
pub mod both;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

pub use altered::{Altered, Standstill};
use tinaja_clock::ManualClock;
use tinaja_proxy::{Config, Listener, Mode, Routes, Rule, Rules, Server, Upstream};
use tinaja_store::{Reference, Store};
pub use tinaja_testkit::client::{Client, Response};
pub use tinaja_testkit::origin::{Origin, Request, reply};
pub use tinaja_testkit::wait::eventually;
use tokio::sync::mpsc;

/// An access log in JSON, which says what pages do not: why a request was not answered.
pub struct Log(tempfile::TempDir);

impl Log {
    pub fn new() -> Log {
        Log(tempfile::tempdir().unwrap())
    }

    /// Has a proxy write it.
    pub fn of(&self, config: &mut Config) {
        config.access_log = Some(self.0.path().join("access.log"));
        config.access_log_format = tinaja_proxy::LogFormat::Json;
    }

    /// All of it so far.
    pub fn text(&self) -> String {
        std::fs::read_to_string(self.0.path().join("access.log")).unwrap()
    }

    /// Why this page came in place of an answer, by the id that it gives.
    pub fn why(&self, page: &Response) -> String {
        let id = page.request_id();
        assert!(!id.is_empty(), "no id: {}", page.text());
        tinaja_testkit::wait::wait_for("its line in the log", std::time::Duration::from_secs(60), || {
            let text = self.text();
            let records = text.split_inclusive('\n').filter_map(|line| tinaja_logs::json::parse(line).ok());
            let record = records.into_iter().find(|record| record.id.as_ref() == Some(&id));
            record.map(|record| record.why.expect("a reason"))
        })
    }
}

/// A running proxy; it stops when dropped.
pub struct Proxy {
    /// Of the first listener.
    pub address: SocketAddr,
    pub addresses: Vec<SocketAddr>,
    stop: mpsc::UnboundedSender<()>,
    thread: Option<JoinHandle<()>>,
    pub store: Arc<dyn Store>,
}

impl Proxy {
    /// A forward proxy that may reach this host.
    pub fn forward() -> Proxy {
        Proxy::with(|_| {})
    }

    /// A reverse proxy for `origin`.
    pub fn reverse(origin: &Origin) -> Proxy {
        let origin = format!("http://{}", origin.address).parse().unwrap();
        Proxy::with(|config| config.listeners[0].mode = Mode::Reverse(Routes::to(origin)))
    }

    /// A reverse proxy for a list of origins, asked as `change` says.
    pub fn before(origins: &[SocketAddr], change: impl FnOnce(&mut Upstream)) -> Proxy {
        Proxy::before_with(origins, change, |_| {})
    }

    /// The same, with further settings.
    pub fn before_with(
        origins: &[SocketAddr],
        change: impl FnOnce(&mut Upstream),
        more: impl FnOnce(&mut Config),
    ) -> Proxy {
        let origins: Vec<_> = origins.iter().map(|address| format!("http://{address}").parse().unwrap()).collect();
        let mut upstream = Upstream { origins: origins.clone(), ..Upstream::from(origins[0].clone()) };
        change(&mut upstream);
        Proxy::with(|config| {
            config.listeners[0].mode = Mode::Reverse(Routes::new(vec![], Some(upstream)).unwrap());
            more(config);
        })
    }

    /// A forward proxy that may reach this host, with further settings.
    pub fn with(change: impl FnOnce(&mut Config)) -> Proxy {
        let store: Arc<dyn Store> = Arc::new(Reference::new());
        Proxy::over(store, change)
    }

    /// The same, and what moves its clock, which stands still otherwise.
    pub fn by_hand(change: impl FnOnce(&mut Config)) -> (Proxy, ManualClock) {
        let hand = ManualClock::new();
        (Proxy::over(Arc::new(Reference::by(hand.clock())), change), hand)
    }

    pub fn over(store: Arc<dyn Store>, change: impl FnOnce(&mut Config)) -> Proxy {
        let mut listener = Listener::forward("127.0.0.1:0".parse().unwrap());
        listener.rules.push(Rule::allow_destination("127.0.0.0/8".parse().unwrap()));
        let mut config = Config { listeners: vec![listener], ..Config::default() };
        change(&mut config);
        let server = Server::bind(config, store.clone()).unwrap();
        let addresses = server.addresses().to_vec();
        let address = addresses[0];
        let (stop, mut stopped) = mpsc::unbounded_channel();
        let thread = std::thread::spawn(move || {
            server.run(async move || {
                stopped.recv().await;
            });
        });
        Proxy { address, addresses, stop, thread: Some(thread), store }
    }

    /// Waits until so many objects are stored: an answer's last byte comes before that.
    pub fn has_stored(&self, count: u64) {
        eventually("it is stored", || self.store.stats().stored >= count);
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// GET over a new connection, as clients of a forward proxy do.
    pub fn get(&self, url: &str) -> Response {
        self.get_with(url, "")
    }

    pub fn get_with(&self, url: &str, fields: &str) -> Response {
        self.request("GET", url, fields)
    }

    pub fn request(&self, method: &str, url: &str, fields: &str) -> Response {
        let mut client = self.client();
        client.request(method, url, fields)
    }

    /// Stops as on a signal and waits for the end.
    pub fn stop(&mut self) {
        let _ = self.stop.send(());
        self.thread.take().map(JoinHandle::join).transpose().unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        // A second time: do not wait for what is still going on.
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
