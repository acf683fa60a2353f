//! What is waited for.

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `OpenEntry`.
    Open,
    /// `CreateEntry`.
    Create,
    /// `ReadData`.
    Read,
    /// `WriteData`.
    Write,
    /// `Close`.
    Close,
    /// All of a hit: `OpenEntry` and every `ReadData` by the same handle.
    Hit,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [Kind::Open, Kind::Create, Kind::Read, Kind::Write, Kind::Close, Kind::Hit];

    /// The name of the call.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Open => "OpenEntry",
            Kind::Create => "CreateEntry",
            Kind::Read => "ReadData",
            Kind::Write => "WriteData",
            Kind::Close => "Close",
            Kind::Hit => "a whole hit",
        }
    }
}
