//! The order of rooms, as ARCHITECTURE.md has it.
//!
//! Each crate has a block. A line is a room and what it holds, from the top to the bottom; or, behind a `!`, an arrow up that
//! is known and waits to be undone:
//!
//! ````text
//! ```rooms store
//! cache: the contract over any engine
//! engine: where records lie
//! ! engine -> cache
//! ```
//! ````

/// The rooms of one crate, from top to bottom.
#[derive(Debug, Default)]
pub struct Plan {
    pub name: String,
    pub rooms: Vec<String>,
    /// Arrows up that are known, from and to.
    pub known: Vec<(String, String)>,
    /// Lines that say nothing of all that.
    pub unclear: Vec<String>,
}

/// The blocks of a page.
pub fn plans(page: &str) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("```rooms ") {
            let mut plan = Plan { name: name.trim().to_owned(), ..Plan::default() };
            lines.by_ref().take_while(|line| *line != "```").for_each(|line| plan.take(line));
            plans.push(plan);
        }
    }
    plans
}

impl Plan {
    fn take(&mut self, line: &str) {
        if let Some(arrow) = line.strip_prefix("! ") {
            return match arrow.split_once(" -> ") {
                Some((from, to)) => self.known.push((from.trim().to_owned(), to.trim().to_owned())),
                None => self.unclear.push(line.to_owned()),
            };
        }
        match line.split_once(':') {
            Some((room, holds)) if !holds.trim().is_empty() && !room.contains(' ') => self.rooms.push(room.to_owned()),
            _ if line.trim().is_empty() => {}
            _ => self.unclear.push(line.to_owned()),
        }
    }
}
