//! What one line of an access log says, whatever its format.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One request that was answered. Text fields are as they came: the writers escape them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The request's id, if it has one. In the JSON format alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// When the request was answered, in milliseconds since 1970.
    pub time_ms: u64,
    /// From the request's first byte to the answer's last, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// The client's IP address.
    #[serde(default)]
    pub client: String,
    /// The request's method.
    pub method: String,
    /// The whole URL that was asked for, or `host:port` of a tunnel.
    pub url: String,
    /// The status the client got; 0 when it got none.
    pub status: u16,
    /// Body bytes sent to the client; for a tunnel the bytes sent to the client.
    #[serde(default)]
    pub bytes: u64,
    /// What the cache had to do with it.
    #[serde(default = "no_result")]
    pub result: CacheResult,
    /// The origin's address, if one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The address and port that the client chose, where it knew of no proxy and the kernel sent it here. In the JSON format; Squid's says
    /// whether the origin is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// The answer's media type, without parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The request's Referer field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referer: Option<String>,
    /// The request's User-Agent field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// Why the proxy answered with a page of its own, or cut its answer off. In the JSON format alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A log that does not say.
fn no_result() -> CacheResult {
    CacheResult::None
}

/// What the cache had to do with an answer, by Squid's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum CacheResult {
    /// Not in the cache, or not cacheable: the origin answered (`TCP_MISS`).
    #[default]
    Miss,
    /// Answered from the cache (`TCP_HIT`).
    Hit,
    /// Answered from another client's fetch of the same object (`TCP_CF_HIT`).
    Collapsed,
    /// A condition of the client's was answered from the cache with 304 (`TCP_IMS_HIT`).
    NotModified,
    /// Stale; the origin said it is still good (`TCP_REFRESH_UNMODIFIED`).
    Revalidated,
    /// Stale; the origin sent a new one (`TCP_REFRESH_MODIFIED`).
    Refetched,
    /// Stale, and served so because the origin failed (`TCP_REFRESH_FAIL_OLD`).
    Stale,
    /// The client insisted on a fresh copy (`TCP_CLIENT_REFRESH_MISS`).
    ClientRefresh,
    /// Refused by a rule (`TCP_DENIED`).
    Denied,
    /// A CONNECT tunnel (`TCP_TUNNEL`).
    Tunnel,
    /// No request could be read, or none was answered (`NONE`).
    None,
    /// Another program's name for something else, as it stands in its log.
    Other(String),
}

const NAMES: [(CacheResult, &str); 11] = [
    (CacheResult::Miss, "TCP_MISS"),
    (CacheResult::Hit, "TCP_HIT"),
    (CacheResult::Collapsed, "TCP_CF_HIT"),
    (CacheResult::NotModified, "TCP_IMS_HIT"),
    (CacheResult::Revalidated, "TCP_REFRESH_UNMODIFIED"),
    (CacheResult::Refetched, "TCP_REFRESH_MODIFIED"),
    (CacheResult::Stale, "TCP_REFRESH_FAIL_OLD"),
    (CacheResult::ClientRefresh, "TCP_CLIENT_REFRESH_MISS"),
    (CacheResult::Denied, "TCP_DENIED"),
    (CacheResult::Tunnel, "TCP_TUNNEL"),
    (CacheResult::None, "NONE"),
];

impl CacheResult {
    /// Squid's name for it.
    pub fn name(&self) -> &str {
        match self {
            CacheResult::Other(name) => name,
            known => NAMES.iter().find(|(result, _)| result == known).map_or("NONE", |(_, name)| name),
        }
    }
}

impl fmt::Display for CacheResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CacheResult {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(CacheResult::from(text.to_owned()))
    }
}

impl From<String> for CacheResult {
    fn from(name: String) -> Self {
        let known = NAMES.iter().find(|(_, known)| *known == name).map(|(result, _)| result.clone());
        known.unwrap_or(CacheResult::Other(name))
    }
}

impl From<CacheResult> for String {
    fn from(result: CacheResult) -> String {
        result.name().to_owned()
    }
}

/// Why a line is not one of the expected format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a line of the {format} format: {what} is missing or malformed")]
pub struct ParseError {
    /// The format that was expected.
    pub format: &'static str,
    /// The field at which reading ended.
    pub what: &'static str,
}
