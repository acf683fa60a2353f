//! Every limit of this crate, with its reason. None of them is a speed: each bounds what one message can cost.

/// The largest request head, in bytes, with its last empty line: twice what common servers take, so that nothing they
/// would answer is refused here, and little enough for thousands of clients that are still sending theirs.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The largest head of an answer, in bytes: origins that set many cookies come to a tenth of it, and each connection that
/// waits for a head may hold so much.
pub const MAX_ANSWER_HEAD_BYTES: usize = 128 * 1024;

/// Empty lines before a head that are skipped, in bytes (RFC 9112 2.2): some clients end a body with one too many, and
/// nobody has a reason for a fifth.
pub const MAX_SKIPPED_BYTES: usize = 8;

/// The most header lines of a request: browsers send some 20, and each line costs a place in a map.
pub const MAX_FIELDS: usize = 128;

/// The most header lines of an answer: origins that set many cookies come to a tenth of it. Removing one field of tens of
/// thousands of lines takes seconds.
pub const MAX_ANSWER_FIELDS: usize = 1024;

/// The longest request target, in bytes: longer ones are answered 414 by most origins, and it is part of every key.
pub const MAX_TARGET_BYTES: usize = 16 * 1024;

/// The longest method, in bytes: the longest registered one has 17.
pub const MAX_METHOD_BYTES: usize = 32;

/// The longest host name, in bytes (RFC 1035 2.3.4, in text form with its last dot).
pub const MAX_HOST_BYTES: usize = 254;

/// The longest line of a chunked body, in bytes: a chunk's size with its extensions, or a trailer field. One line is
/// all of a body that is held, for each connection.
pub const MAX_LINE_BYTES: usize = 4 * 1024;

/// All trailer fields of a body together, in bytes: they come after the body, when nobody waits for a head any more.
pub const MAX_TRAILER_BYTES: usize = 16 * 1024;

/// The largest number of seconds that counts: RFC 9111 1.2.2 lets a cache cap what is larger at 2^31. Sums of a few
/// of these stay far from overflow.
pub const MAX_SECONDS: u64 = 1 << 31;

/// The longest lifetime given by guess, in seconds (RFC 9111 4.2.2 leaves it to the cache): a week, since nobody said
/// that the response would last at all. Past a day RFC 9111 expects caches to think twice.
pub const MAX_HEURISTIC_SECONDS: u64 = 7 * 24 * 3600;

/// The longest that an error is kept which one odd request or one bad moment brings about, in seconds, whatever lifetime it comes
/// with: long enough to spare an origin that is overloaded.
pub const MAX_ERROR_SECONDS: u64 = 10;

/// Fields that one Vary may name. A response that names more is not stored: each lookup would compare them all.
pub const MAX_VARY_FIELDS: usize = 32;

/// Variants kept of one URL. A client can send as many values of a field as it likes; what it cannot do is to fill
/// the disk with copies of one object.
pub const MAX_VARIANTS: usize = 64;

/// Members of one Accept-Encoding or Accept-Language that are put into one form. Longer fields are compared as they
/// came: nobody's browser sends them, and sorting costs more than linear time.
pub const MAX_NORMALISED_MEMBERS: usize = 32;

/// Ranges in one request. Clients that need several ask for two or three; ten thousand are a flood, each with its own
/// part header (RFC 9110 14.2 lets a server ignore those).
pub const MAX_RANGES: usize = 16;

/// Overlapping pairs among the ranges of one request before they are ignored: RFC 9110 14.2 calls more than two an
/// attack or a fault.
pub const MAX_RANGE_OVERLAPS: usize = 2;

/// Pieces kept of one object that is not whole. A player that asks for a MiB at a time gets 256 MiB kept, and a client
/// that asks for every other byte makes a list of 8 KiB and no more.
pub const MAX_PIECES: usize = 256;

/// URLs that one answer to an unsafe method may make invalid besides its own: Location and Content-Location come once
/// each, and lines beyond that are not worth a lookup.
pub const MAX_INVALIDATED: usize = 4;

/// Interim responses to one request: an origin sends one or two, and each is passed on at once. Without a bound, one
/// that sends nothing else would hold its connection and its client's for ever.
pub const MAX_INTERIM_RESPONSES: usize = 16;

/// Proxies that a request may have come through, as X-Forwarded-For or Forwarded says, where they are believed: chains have two or three, and a field
/// that names more was not written by them.
pub const MAX_PROXIES: usize = 32;
