//! A plain Pingora reverse proxy with a Tinaja cache on disk:
//!
//! ```text
//! cargo run --example plain_proxy -- 127.0.0.1:8080 127.0.0.1:80 /var/cache/plain-proxy
//! curl -X PURGE http://127.0.0.1:8080/page     # from the same machine only
//! ```

use async_trait::async_trait;
use pingora::cache::lock::CacheKeyLockImpl;
use pingora::cache::{CacheKey, CacheMetaDefaults, NoCacheReason, RespCacheable, cache_control::CacheControl, filters};
use pingora::http::ResponseHeader;
use pingora::prelude::*;
use pingora::server::{RunArgs, configuration::ServerConf};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tinaja_pingora::TinajaStorage;
use tinaja_store::{Cache, CacheOptions, Store, block_on};

/// Without a lifetime from the origin nothing is cached.
const DEFAULTS: CacheMetaDefaults = CacheMetaDefaults::new(|_| None, 0, 0);

struct Plain {
    origin: SocketAddr,
    storage: &'static TinajaStorage,
    /// Of many requests for one new object one goes to the origin; the others read along.
    lock: &'static CacheKeyLockImpl,
}

#[async_trait]
impl ProxyHttp for Plain {
    type CTX = ();
    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, _: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.origin, false, String::new())))
    }

    fn request_cache_filter(&self, session: &mut Session, ctx: &mut ()) -> Result<()> {
        if filters::request_cacheable(session.req_header()) || self.is_purge(session, ctx) {
            session.cache.enable(self.storage, None, None, Some(self.lock), None);
        }
        Ok(())
    }

    fn cache_key_callback(&self, session: &Session, _: &mut ()) -> Result<CacheKey> {
        let request = session.req_header();
        let host = request.headers.get("host").map_or(&b""[..], |host| host.as_bytes());
        // The length tells where the host ends, so that no host and path together read like another pair.
        let mut key = format!("{}:", host.len()).into_bytes();
        key.extend_from_slice(host);
        key.extend_from_slice(request.uri.to_string().as_bytes());
        Ok(CacheKey::new(key, ""))
    }

    fn response_cache_filter(&self, session: &Session, response: &ResponseHeader, _: &mut ()) -> Result<RespCacheable> {
        // Answers for one visitor, variants and parts need rules that this example leaves out.
        let has = |name| response.headers.contains_key(name);
        if has("vary") || has("set-cookie") || response.status != 200 {
            return Ok(RespCacheable::Uncacheable(NoCacheReason::OriginNotCache));
        }
        let (control, response) = (CacheControl::from_resp_headers(response), response.clone());
        let authorised = session.req_header().headers.contains_key("authorization");
        Ok(filters::resp_cacheable(control.as_ref(), response, authorised, &DEFAULTS))
    }

    fn is_purge(&self, session: &Session, _: &()) -> bool {
        let client = session.client_addr().and_then(|address| address.as_inet());
        session.req_header().method.as_str() == "PURGE" && client.is_some_and(|address| address.ip().is_loopback())
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [listen, origin, dir] = args.as_slice() else {
        return Err("usage: plain_proxy LISTEN_ADDRESS ORIGIN_ADDRESS CACHE_DIR".into());
    };
    let address = |text: &str| text.parse().map_err(|_| format!("{text} is not like 127.0.0.1:8080"));
    let (listen, origin): (SocketAddr, SocketAddr) = (address(listen)?, address(origin)?);
    // Pingora itself would try for half a minute and then go on without a port.
    drop(TcpListener::bind(listen).map_err(|error| format!("{listen}: {error}"))?);
    let store: Arc<dyn Store> = Arc::new(Cache::open(CacheOptions::new(dir)).map_err(|error| error.to_string())?);
    let storage = TinajaStorage::new(store.clone());
    let lock = storage.lock(Duration::from_secs(10));
    let mut conf = ServerConf::default();
    // On SIGTERM end within ten seconds, and then close the store.
    (conf.grace_period_seconds, conf.graceful_shutdown_timeout_seconds) = (Some(5), Some(5));
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut proxy = http_proxy_service(&server.configuration, Plain { origin, storage, lock });
    proxy.add_tcp(&listen.to_string());
    server.add_service(proxy);
    server.run(RunArgs::default());
    Ok(block_on(store.close())?)
}
