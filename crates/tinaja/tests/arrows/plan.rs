//! The order of rooms, as ARCHITECTURE.md has it.
//!
//! Each crate has a block, and a room may have one for its files: `rooms store/engine`. A line is a room and what it holds,
//! from the top to the bottom:
//!
//! ````text
//! ```rooms store
//! cache: the contract over any engine
//! engine: where records lie
//! ```
//! ````

/// The rooms of one crate, or the files of one room, from top to bottom.
#[derive(Debug, Default)]
pub struct Plan {
    pub name: String,
    pub rooms: Vec<String>,
    /// Lines that name no room.
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
    /// The crate, and the room of it, if it is the plan of one.
    pub fn place(&self) -> (&str, Option<&str>) {
        self.name.split_once('/').map_or((&self.name, None), |(of, room)| (of, Some(room)))
    }

    fn take(&mut self, line: &str) {
        match line.split_once(':') {
            Some((room, holds)) if !holds.trim().is_empty() && !room.contains(' ') => self.rooms.push(room.to_owned()),
            _ if line.trim().is_empty() => {}
            _ => self.unclear.push(line.to_owned()),
        }
    }
}
