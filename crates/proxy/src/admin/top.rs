//! Which hosts have the most in a cache.

use std::collections::HashMap;
use std::time::Duration;

use tinaja_store::{Cursor, Store, StoreError};

use super::purge::PAGE;
use super::words::{Host, Top};
use crate::origin::default_port;
use crate::stored::{Kind, StoredHead, is_store_id, parts_of};

/// Hosts that are told apart, at most: some 10 MB. Objects of further ones are counted, but for no host.
pub const MOST_HOSTS: usize = 100_000;

/// Looks at every object, for `limit` at most, and lists the `most` hosts with the most objects and the most bytes. It
/// reads all of the cache's disk, page by page; others are served meanwhile.
///
/// Errors: the store's.
pub async fn top_hosts(store: &dyn Store, most: usize, limit: Duration) -> Result<Top, StoreError> {
    // One clock for all of it: a store that is handed over may be another one meanwhile.
    let clock = store.clock();
    let until = clock.now() + limit;
    let mut hosts: HashMap<String, (u64, u64)> = HashMap::new();
    let mut top = Top::default();
    let mut from = Some(Cursor::default());
    while let Some(cursor) = from
        && clock.now() < until
    {
        let page = store.scan(cursor, PAGE).await?;
        for entry in &page.entries {
            let bytes = entry.head.len() as u64 + entry.body_bytes;
            let head = StoredHead::decode(&entry.head);
            // What says which variants there are is no object of its own, nor is a piece.
            let object = head.as_ref().is_none_or(|head| matches!(head.kind, Kind::Whole | Kind::Pieces));
            let object = u64::from(object);
            top.objects += object;
            top.bytes += bytes;
            let Some(host) = head.and_then(|head| shown(head.primary())) else { continue };
            if hosts.len() < MOST_HOSTS || hosts.contains_key(&host) {
                let (objects, sum) = hosts.entry(host).or_default();
                *objects += object;
                *sum += bytes;
            }
        }
        from = page.next;
    }
    top.complete = from.is_none();
    let hosts: Vec<Host> = hosts.into_iter().map(|(host, (objects, bytes))| Host { host, objects, bytes }).collect();
    top.by_objects = first(&hosts, most, |host| (host.objects, host.bytes));
    top.by_bytes = first(&hosts, most, |host| (host.bytes, host.objects));
    Ok(top)
}

fn first(hosts: &[Host], most: usize, by: impl Fn(&Host) -> (u64, u64)) -> Vec<Host> {
    let mut sorted: Vec<&Host> = hosts.iter().collect();
    // Names last, so that the order is the same each time.
    sorted.sort_by(|one, other| by(other).cmp(&by(one)).then_with(|| one.host.cmp(&other.host)));
    sorted.into_iter().take(most).cloned().collect()
}

/// The host as clients ask for it.
fn shown(primary: &[u8]) -> Option<String> {
    let parts = parts_of(primary)?;
    if !parts.site.is_empty() && !is_store_id(parts.site) {
        return Some(parts.site.trim_start_matches("https://").to_owned());
    }
    let host = if parts.host.contains(':') { format!("[{}]", parts.host) } else { parts.host.to_owned() };
    let usual = default_port(parts.scheme == "https").to_string();
    Some(if parts.port == usual { host } else { format!("{host}:{}", parts.port) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_shown_as_clients_ask_for_them() {
        for (primary, host) in [
            ("4:http,1:a,2:80,0:,1:/,", Some("a")),
            ("5:https,1:a,3:443,0:,1:/,", Some("a")),
            ("4:http,1:a,3:443,0:,1:/,", Some("a:443")),
            ("4:http,3:::1,4:8080,0:,1:/,", Some("[::1]:8080")),
            ("4:http,1:a,2:80,6:b:8080,1:/,", Some("b:8080")),
            ("4:http,20:cdn.store-id.invalid,2:80,17:store-id:/forward,1:/,", Some("cdn.store-id.invalid")),
            ("other", None),
        ] {
            assert_eq!(shown(primary.as_bytes()).as_deref(), host, "{primary}");
        }
    }
}
