//! Why a request head is refused: a closed list, with names that logs and tests may rely on.

use std::fmt;

/// Why a request is refused before anything is done with it. The connection is closed after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The head is larger than [`crate::limits::MAX_HEAD_BYTES`].
    HeadTooLarge,
    /// More header lines than [`crate::limits::MAX_FIELDS`].
    TooManyFields,
    /// The target is longer than [`crate::limits::MAX_TARGET_BYTES`].
    TargetTooLong,
    /// A line ends with something else than CR LF, or a CR stands alone (RFC 9112 2.2).
    BareCrOrLf,
    /// A control byte where none may be (RFC 9110 5.5).
    ControlByte,
    /// The first line is not `METHOD SP target SP HTTP-version` (RFC 9112 3).
    RequestLine,
    /// A method that would be answered by the proxy itself, and is not supported (TRACE, PRI), or that is longer than
    /// [`crate::limits::MAX_METHOD_BYTES`] (RFC 9112 3).
    Method,
    /// A version other than HTTP/1.0 and HTTP/1.1 (RFC 9110 15.6.6).
    Version,
    /// The target is of no known form or has a byte that no URL has (RFC 9112 3.2).
    Target,
    /// A `#fragment` in the target, which clients keep to themselves (RFC 9110 4.2.5).
    Fragment,
    /// A backslash in the target, which some read as a slash.
    Backslash,
    /// `user:password@` in the target or in Host (RFC 9110 4.2.4).
    Userinfo,
    /// A host or port that is none (RFC 3986 3.2).
    Authority,
    /// The target of CONNECT is not `host:port` (RFC 9112 3.2.3).
    ConnectTarget,
    /// A line without a colon, a name that is no token, or a space before the colon (RFC 9112 5.1).
    FieldName,
    /// A line that continues the one before it (RFC 9112 5.2).
    ObsFold,
    /// No Host in an HTTP/1.1 request (RFC 9112 3.2).
    HostMissing,
    /// More than one Host (RFC 9112 3.2).
    HostTwice,
    /// Host and target name different authorities (RFC 9112 3.2.2).
    HostMismatch,
    /// Content-Length is not one whole number, or comes more than once (RFC 9112 6.3).
    ContentLength,
    /// No Content-Length in an HTTP/1.0 request that brings a body (RFC 1945 7.2.2).
    LengthMissing,
    /// Content-Length and Transfer-Encoding together (RFC 9112 6.1).
    BothLengths,
    /// Transfer-Encoding is malformed, comes twice, or comes in HTTP/1.0 (RFC 9112 6.1).
    TransferEncoding,
    /// A transfer coding that is known, but not spoken here (RFC 9112 6.1).
    TransferCoding,
    /// A field that belongs to an HTTP/1 connection, in a request over HTTP/2 (RFC 9113 8.2.2).
    ConnectionField,
    /// A method that has no body came with one (CONNECT).
    BodyNotAllowed,
    /// The head did not arrive in time (RFC 9110 15.5.9).
    TooSlow,
}

impl Refusal {
    /// A short name that does not change between releases.
    pub fn name(self) -> &'static str {
        use Refusal::*;
        match self {
            HeadTooLarge => "head-too-large",
            TooManyFields => "too-many-fields",
            TargetTooLong => "target-too-long",
            BareCrOrLf => "bare-cr-or-lf",
            ControlByte => "control-byte",
            RequestLine => "request-line",
            Method => "method",
            Version => "version",
            Target => "target",
            Fragment => "fragment",
            Backslash => "backslash",
            Userinfo => "userinfo",
            Authority => "authority",
            ConnectTarget => "connect-target",
            FieldName => "field-name",
            ObsFold => "obs-fold",
            HostMissing => "host-missing",
            HostTwice => "host-twice",
            HostMismatch => "host-mismatch",
            ContentLength => "content-length",
            LengthMissing => "length-missing",
            BothLengths => "both-lengths",
            TransferEncoding => "transfer-encoding",
            TransferCoding => "transfer-coding",
            ConnectionField => "connection-field",
            BodyNotAllowed => "body-not-allowed",
            TooSlow => "too-slow",
        }
    }

    /// The status to answer with.
    pub fn status(self) -> u16 {
        match self {
            Refusal::HeadTooLarge | Refusal::TooManyFields => 431,
            Refusal::TargetTooLong => 414,
            Refusal::Version => 505,
            Refusal::Method | Refusal::TransferCoding => 501,
            Refusal::TooSlow => 408,
            _ => 400,
        }
    }

    /// One sentence for whoever sent the request.
    pub fn reason(self) -> &'static str {
        use Refusal::*;
        match self {
            HeadTooLarge => "The request's header is larger than 64 KiB.",
            TooManyFields => "The request has more than 128 header lines.",
            TargetTooLong => "The URL is longer than 16 KiB.",
            BareCrOrLf => "Every line of the header must end with CR LF; a CR or LF alone is not allowed.",
            ControlByte => "The header contains a control character.",
            RequestLine => "The first line is not of the form: METHOD URL HTTP/1.1.",
            Method => "This proxy does not support the request's method.",
            Version => "This connection only supports HTTP/1.0 and HTTP/1.1.",
            Target => "The URL is malformed.",
            Fragment => "The URL must not contain a #.",
            Backslash => "The URL must not contain a backslash.",
            Userinfo => "The URL must not contain a user name or password.",
            Authority => "The host or port is malformed.",
            ConnectTarget => "CONNECT needs a target of the form host:port.",
            FieldName => "A header line has no valid name before its colon.",
            ObsFold => "A header line begins with a space: folded lines are not allowed.",
            HostMissing => "The Host field is missing.",
            HostTwice => "There is more than one Host field.",
            HostMismatch => "The Host field and the URL name different hosts.",
            ContentLength => "Content-Length must be one whole number.",
            LengthMissing => "A request with a body needs a Content-Length in HTTP/1.0.",
            BothLengths => "A request must not have both Content-Length and Transfer-Encoding.",
            TransferEncoding => "Transfer-Encoding must be: chunked, once, in HTTP/1.1.",
            TransferCoding => "The only transfer coding that this proxy supports is chunked.",
            ConnectionField => "HTTP/2 does not allow connection fields such as Connection and Transfer-Encoding.",
            BodyNotAllowed => "This method must not have a body.",
            TooSlow => "The request's header did not arrive in time.",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Refusal {}
