//! A case file, read: what to set up, the rows of its table, and its steps.

use std::time::Duration;

use super::{Over, Side};

/// A whole case.
#[derive(Debug)]
pub struct Case {
    pub sides: Vec<Side>,
    /// `set NAME VALUE`, for the proxy.
    pub settings: Vec<(String, String)>,
    /// Each row is one run of the steps; its columns are `{1}`, `{2}` and so on.
    pub rows: Vec<Vec<String>>,
    pub steps: Vec<Step>,
}

/// One statement, with the lines of data under it.
#[derive(Debug)]
pub struct Step {
    pub line: usize,
    pub act: Act,
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Writes the data, a byte at a time if a pause is given.
    Send(End, Option<Duration>),
    /// Reads one message, as often as it says, and compares it with the data.
    Get(End, Reading),
    /// Gets no message that could pass for a whole one: none, one that ends early, or word of a failure.
    GetNoWhole(End),
    /// Reads exactly the bytes of the data.
    GetBytes(End),
    /// The other side has closed, with nothing further sent; see [`Closing`].
    IsClosed(End, Closing),
    /// Sends nothing more, and goes on reading.
    Ends(End),
    /// Closes its connection.
    Leaves(End),
    /// For a while no byte comes from the proxy, on no connection to the origin.
    OriginHearsNothing,
    /// So many connections to the origin have been made.
    OriginConnections(usize),
    /// Each line of data is in the access log, or is not if it begins with `!`.
    Log,
    Wait(Duration),
}

/// How a connection that was closed looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Nothing further comes on it. Over HTTP/2 a client's goes on all the same, for other streams.
    Plain,
    /// Over HTTP/2 too it is closed.
    Always,
    /// Whatever came on it unread.
    BehindMore,
}

/// Who acts: a client by its name, or the origin on its connection of that number, or on whichever is spoken on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Client(String),
    Origin(Option<usize>),
}

/// How a message is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What was asked by; it says whether a body follows.
    pub method: String,
    /// The body ends before its framing says so.
    pub cut: bool,
    pub times: usize,
}

impl Case {
    /// Reads the lines for clients of this version of HTTP.
    ///
    /// Errors: the first line that is not understood; that the case is not for this version.
    pub fn parse(text: &str, over: Over) -> Result<Case, String> {
        let mut case = Case { sides: Vec::new(), settings: Vec::new(), rows: Vec::new(), steps: Vec::new() };
        let mut versions = "";
        let other = if over == Over::Http1 { '2' } else { '1' };
        for (line, text) in (1..).zip(text.lines()) {
            let bad = |what: &str| format!("line {line}: {what}: {text:?}");
            let (mark, rest) = text.split_once(' ').unwrap_or((text, ""));
            // `|1` and `-2`: for one version alone.
            let (mark, version) = match mark.split_at_checked(1) {
                Some((plain @ ("|" | "=" | "-"), version @ ("1" | "2"))) => (plain, version),
                _ => (mark, ""),
            };
            if version.starts_with(other) {
                continue;
            }
            match (mark, rest) {
                ("" | "#", _) => {}
                ("-", row) => case.rows.push(row.split(" => ").map(str::to_owned).collect()),
                (mark @ ("|" | "="), data) => {
                    let step = case.steps.last_mut().ok_or_else(|| bad("data before the first statement"))?;
                    step.data.push_str(data);
                    step.data.push_str(if mark == "|" { "\\r\\n" } else { "" });
                }
                ("mode", "both") => case.sides = vec![Side::Forward, Side::Reverse],
                ("mode", "forward") => case.sides = vec![Side::Forward],
                ("mode", "reverse") => case.sides = vec![Side::Reverse],
                ("over", named @ ("http/1.1" | "http/1.1 and http/2")) => versions = named,
                ("each", "") => {}
                ("set", setting) => {
                    let (name, value) = setting.split_once(' ').ok_or_else(|| bad("no value"))?;
                    case.settings.push((name.to_owned(), value.to_owned()));
                }
                _ => {
                    let act = Act::parse(text).ok_or_else(|| bad("not understood"))?;
                    case.steps.push(Step { line, act, data: String::new() });
                }
            }
        }
        if case.sides.is_empty() || versions.is_empty() || case.steps.is_empty() {
            return Err("a case needs a mode, a version and steps".into());
        }
        if over == Over::Http2 && !versions.ends_with("http/2") {
            return Err("it is not for HTTP/2".into());
        }
        if case.rows.is_empty() {
            case.rows.push(Vec::new());
        }
        Ok(case)
    }
}

impl Act {
    fn parse(text: &str) -> Option<Act> {
        let (plain, options) = match text.split_once(" (") {
            Some((plain, options)) => (plain, options.strip_suffix(')')?),
            None => (text, ""),
        };
        let words: Vec<&str> = plain.split(' ').collect();
        let (end, rest) = match words.as_slice() {
            ["origin", "hears", "nothing"] => return Some(Act::OriginHearsNothing),
            ["origin", "has", count, "connections" | "connection"] => {
                return Some(Act::OriginConnections(count.parse().ok()?));
            }
            ["log", "has"] => return Some(Act::Log),
            ["wait", pause, "ms"] => return Some(Act::Wait(millis(pause)?)),
            ["client", name, rest @ ..] => (End::Client((*name).to_owned()), rest),
            ["origin", number, rest @ ..] if number.parse::<usize>().is_ok() => {
                (End::Origin(number.parse().ok()), rest)
            }
            ["origin", rest @ ..] => (End::Origin(None), rest),
            _ => return None,
        };
        match rest {
            ["sends"] => Some(Act::Send(end, None)),
            ["drips", "every", pause, "ms"] => Some(Act::Send(end, Some(millis(pause)?))),
            ["gets"] => Some(Act::Get(end, Reading::parse(options)?)),
            ["gets", "no", "whole", "answer" | "request"] => Some(Act::GetNoWhole(end)),
            ["gets", "bytes"] => Some(Act::GetBytes(end)),
            ["is", "closed"] => Some(Act::IsClosed(
                end,
                match options {
                    "" => Closing::Plain,
                    "always" => Closing::Always,
                    "behind more" => Closing::BehindMore,
                    _ => return None,
                },
            )),
            ["ends"] => Some(Act::Ends(end)),
            ["leaves"] => Some(Act::Leaves(end)),
            _ => None,
        }
    }
}

impl Reading {
    fn parse(options: &str) -> Option<Reading> {
        let mut reading = Reading { method: "GET".into(), cut: false, times: 1 };
        for option in options.split(", ").filter(|option| !option.is_empty()) {
            match option.split_once(' ') {
                Some((times, "times")) => reading.times = times.parse().ok()?,
                None if option == "cut" => reading.cut = true,
                None if matches!(option, "HEAD" | "CONNECT") => reading.method = option.to_owned(),
                _ => return None,
            }
        }
        Some(reading)
    }
}

fn millis(text: &str) -> Option<Duration> {
    Some(Duration::from_millis(text.parse().ok()?))
}
