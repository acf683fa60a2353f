//! What happens at each step of a request that Pingora carries out.
//!
//! This file says which step does what; the rules stand in the files beside it and in `tinaja-http`.

mod abort;
mod answer;
mod context;
mod errand;
mod headers;
mod key;
mod outcome;
mod ranges;
mod reuse;
mod storing;

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use pingora_cache::key::HashBinary;
use pingora_cache::lock::{CacheKeyLockImpl, CacheLock};
use pingora_cache::{
    CacheKey, CacheMeta, CacheOptionOverrides, ForcedFreshness, HitHandler, NoCacheReason, RespCacheable,
};
use pingora_core::modules::http::HttpModules;
use pingora_core::prelude::HttpPeer;
use pingora_error::{Error, ErrorSource, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, RangeType, Session};
use tinaja_http::body::Framing;
use tinaja_http::control::request_directives;
use tinaja_http::freshness::invalidates;
use tinaja_http::status::Outcome;
use tinaja_http::{hops, vary};
use tinaja_pingora::StartsLater;

use answer::{error_of, give_up};
use context::Context;
pub(crate) use context::Ticket;
use errand::Errands;
pub(crate) use headers::current_age_of;
pub(crate) use key::{cache_key, key_of, parts_of};
pub(crate) use outcome::ttl_seconds;
pub(crate) use reuse::{Reuse, Stored, not_for_cache, reuse};
pub(crate) use storing::{FETCHED_FROM, fetched_from};

use crate::Storage;
use crate::failure::Failure;
use crate::origin::{peer, resolve};
use crate::shared::Shared;

/// Lookups of one request that may wait for other clients' fetches, one after the other.
const COLLAPSE_TRIES: usize = 4;

/// The steps of a request, as Pingora calls them.
pub(crate) struct Phases {
    shared: Arc<Shared>,
    storage: Storage,
    /// One fetches, the others wait: by key.
    lock: &'static CacheKeyLockImpl,
    errands: Errands,
}

impl Phases {
    /// Leaks one small lock table: Pingora wants it to live as long as the program.
    pub fn new(shared: Arc<Shared>, storage: Storage) -> Phases {
        let lock = Box::leak(CacheLock::new_boxed(shared.limits.collapse));
        Phases { shared, storage, lock, errands: Errands::new() }
    }

    /// The next address to try, after looking the destination up once.
    async fn address(&self, method: &Method, ctx: &mut Context) -> Result<SocketAddr, Failure> {
        if ctx.addresses.is_empty() {
            let ticket = ctx.ticket()?;
            let check = |address| self.shared.check_address(&ticket.listener, ticket.asked(method), address);
            ctx.addresses = resolve(&ticket.destination, self.shared.limits.resolve, check).await?;
        }
        ctx.addresses.get(ctx.tried).copied().ok_or(Failure::Internal("no address is left to try".into()))
    }
}

#[async_trait]
impl ProxyHttp for Phases {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        Context::default()
    }

    /// None: bodies pass as they are.
    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    /// Takes over what the front knows about this request.
    fn on_connection_reuse(&self, _session: &mut Session, ctx: &mut Context, front: Box<dyn Any + Send + Sync>) {
        ctx.ticket = front.downcast::<Ticket>().ok();
    }

    /// For errands, which are sent only after a part was given.
    fn allow_spawning_subrequest(&self, session: &Session, _ctx: &Context) -> bool {
        session.req_header().headers.contains_key(http::header::RANGE)
    }

    async fn request_filter(&self, session: &mut Session, ctx: &mut Context) -> Result<bool> {
        errand::accept(session, ctx);
        let request = session.req_header();
        ctx.directives = request_directives(&request.headers);
        ctx.partial = ranges::wants_part(request);
        if hops::is_loop(&request.headers, &self.shared.name) {
            return Err(error_of(ctx, Failure::Loop));
        }
        Ok(false)
    }

    /// Turns the cache on for requests it may answer.
    fn request_cache_filter(&self, session: &mut Session, ctx: &mut Context) -> Result<()> {
        let framing = ctx.ticket.as_ref().map_or(Framing::Chunked, |ticket| ticket.framing);
        let not = not_for_cache(&session.req_header().method, framing, &ctx.directives);
        ctx.outcome = not.unwrap_or(Outcome::Miss);
        if not.is_none() {
            // A part of an object or its head alone is not worth waiting for: see `cache_miss`.
            let lock = (!ctx.partial).then_some(self.lock);
            let mut waiting = CacheOptionOverrides::default();
            waiting.wait_timeout = Some(self.shared.limits.collapse);
            waiting.max_lock_retries = Some(COLLAPSE_TRIES);
            session.cache.enable(self.storage, None, None, lock, Some(waiting));
        }
        Ok(())
    }

    fn cache_key_callback(&self, _session: &Session, ctx: &mut Context) -> Result<CacheKey> {
        let ticket = ctx.ticket.as_ref().ok_or_else(|| Error::new(ErrorType::InternalError))?;
        let mut key = cache_key(ticket);
        if ctx.partial {
            key.extensions.insert(StartsLater);
        }
        Ok(key)
    }

    fn cache_vary_filter(&self, meta: &CacheMeta, _ctx: &mut Context, req: &RequestHeader) -> Option<HashBinary> {
        vary::key(meta.headers(), &req.headers)
    }

    /// Decides whether what was found will do.
    async fn cache_hit_filter(
        &self,
        session: &mut Session,
        meta: &CacheMeta,
        hit: &mut HitHandler,
        is_fresh: bool,
        ctx: &mut Context,
    ) -> Result<Option<ForcedFreshness>> {
        let about = Stored { fetched_from: fetched_from(meta.headers()), age_seconds: headers::age(meta), is_fresh };
        let reuse = ctx
            .ticket()
            .map_or(Reuse::Denied, |ticket| reuse(ticket, &session.req_header().method, &ctx.directives, about));
        ctx.outcome = if reuse == Reuse::Insists { Outcome::Request } else { Outcome::Stale };
        Ok(match reuse {
            // On the way to the origin the rules refuse the request with their reason, or find it at another address.
            Reuse::Denied => Some(ForcedFreshness::ForceMiss),
            Reuse::Serve if ctx.partial => ranges::is_there(session.req_header(), meta, hit).await,
            Reuse::Serve => None,
            // Validating would fetch the whole object if it has changed.
            _ if ctx.partial => Some(ForcedFreshness::ForceMiss),
            Reuse::Insists => Some(ForcedFreshness::ForceExpired),
            Reuse::Stale => None,
        })
    }

    /// Nothing usable is stored. A HEAD or a Range then goes to the origin as it is, for with the cache on Pingora
    /// would turn either into a GET of the whole object.
    fn cache_miss(&self, session: &mut Session, ctx: &mut Context) {
        if ctx.outcome == Outcome::Miss {
            let variant = session.cache.maybe_cache_key().is_some_and(|key| key.get_variance_key().is_some());
            ctx.outcome = if variant { Outcome::VaryMiss } else { Outcome::UriMiss };
        }
        if ctx.partial {
            session.cache.disable(NoCacheReason::Custom("only a part was asked for"));
        } else {
            session.cache.cache_miss();
        }
    }

    /// The last step before the origin is asked.
    async fn proxy_upstream_filter(&self, _session: &mut Session, ctx: &mut Context) -> Result<bool> {
        if ctx.directives.only_if_cached {
            return Err(error_of(ctx, Failure::NotCached));
        }
        Ok(true)
    }

    async fn upstream_peer(&self, session: &mut Session, ctx: &mut Context) -> Result<Box<HttpPeer>> {
        let address = match self.address(&session.req_header().method, ctx).await {
            Ok(address) => address,
            Err(failure) => return Err(error_of(ctx, failure)),
        };
        ctx.asked = Some(address);
        match ctx.ticket() {
            Ok(ticket) => Ok(Box::new(peer(&ticket.destination, address, &self.shared.limits))),
            Err(failure) => Err(error_of(ctx, failure)),
        }
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        headers::to_origin(&self.shared, session, request, ctx)
    }

    async fn upstream_response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        if invalidates(&session.req_header().method, response.status)
            && let Some(ticket) = &ctx.ticket
        {
            storing::invalidate(self.storage, &cache_key(ticket)).await;
        }
        headers::from_origin(session, response, ctx)?;
        let most = self.shared.limits.fill_range_below.min(self.storage.store().max_object_bytes());
        ctx.worth_filling = errand::is_worth_it(session.req_header(), response, ctx, most);
        Ok(())
    }

    fn upstream_response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        _end: bool,
        ctx: &mut Context,
    ) -> Result<Option<Duration>> {
        ctx.fetch.arrived += body.as_ref().map_or(0, |body| body.len() as u64);
        abort::check(self.storage, &self.shared.limits, session, ctx)?;
        Ok(None)
    }

    fn range_header_filter(&self, session: &mut Session, resp: &mut ResponseHeader, _: &mut Context) -> RangeType {
        ranges::apply(session.req_header(), resp)
    }

    fn response_cache_filter(
        &self,
        session: &Session,
        resp: &ResponseHeader,
        ctx: &mut Context,
    ) -> Result<RespCacheable> {
        let cacheable = storing::cacheable(session.req_header(), resp, ctx);
        Ok(storing::small_enough(cacheable, self.storage.store().max_object_bytes()))
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        headers::to_client(&self.shared, session, response, ctx)
    }

    /// Only where the origin allowed it (`stale-if-error`), which Pingora has checked.
    fn should_serve_stale(&self, _session: &mut Session, _ctx: &mut Context, error: Option<&Error>) -> bool {
        error.is_some_and(|error| error.esource() == &ErrorSource::Upstream)
    }

    /// Tries the name's next address, if there is one.
    fn fail_to_connect(&self, _: &mut Session, _: &HttpPeer, ctx: &mut Context, mut error: Box<Error>) -> Box<Error> {
        outcome::note_connect_failure(ctx, &error);
        ctx.tried += 1;
        error.set_retry(ctx.tried < ctx.addresses.len());
        error
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, ctx: &mut Context) -> FailToProxy {
        let error_code = give_up(&self.shared, session, error, ctx).await;
        FailToProxy { error_code, can_reuse_downstream: false }
    }

    /// Origins that fail and clients that leave are in the access log; only our own faults belong in the other one.
    fn suppress_error_log(&self, _session: &Session, ctx: &Context, _error: &Error) -> bool {
        !matches!(ctx.failure, Some(Failure::Internal(_)))
    }

    /// Nothing is logged here. It is also where Pingora says that a client has left amid a fetch.
    fn suppress_proxy_warn_log(&self, _: &Session, ctx: &Context, _: &Error, what: ProxyWarnLogContext) -> bool {
        if let ProxyWarnLogContext::DownstreamCache = what {
            abort::client_left(ctx);
        }
        true
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, ctx: &mut Context) {
        // What no client asked for is in no access log.
        if self.shared.log.is_on() && ctx.errand.is_none() {
            self.shared.log.write(outcome::access_record(session, ctx));
        }
        if error.is_none() {
            self.errands.send(session, ctx);
        }
    }
}
