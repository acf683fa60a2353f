//! How far a long run has come, for whoever waits at a terminal.

use std::io::{IsTerminal, Write, stderr};

/// A line on the standard error that says what goes on, and how many percent of it are done where that is a terminal.
pub struct Progress {
    what: String,
    all: usize,
    done: usize,
    told: usize,
    is_terminal: bool,
}

impl Progress {
    /// Of so many steps.
    pub fn of(what: impl Into<String>, all: usize) -> Progress {
        let progress =
            Progress { what: what.into(), all: all.max(1), done: 0, told: 0, is_terminal: stderr().is_terminal() };
        progress.tell(if progress.is_terminal { "" } else { "\n" });
        progress
    }

    /// One more step is done.
    pub fn step(&mut self) {
        self.done += 1;
        let percent = self.percent();
        if self.is_terminal && percent > self.told {
            self.told = percent;
            self.tell("");
        }
    }

    /// What goes on from here is called something else. Only a terminal is told.
    pub fn now(&mut self, what: String) {
        self.what = what;
        if self.is_terminal {
            // What was longer is written over.
            let _ = write!(stderr(), "\r{:79}", "");
            self.tell("");
        }
    }

    /// Whole percent that are done.
    pub fn percent(&self) -> usize {
        self.done.min(self.all) * 100 / self.all
    }

    fn tell(&self, end: &str) {
        let percent = if self.is_terminal { format!("\r{:3} % ", self.percent()) } else { String::new() };
        // Nobody who listens is no reason to stop.
        let _ = write!(stderr(), "{percent}{}{end}", self.what);
        let _ = stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            let _ = writeln!(stderr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_are_of_all_steps() {
        let mut progress = Progress::of("a test", 3);
        let percent: Vec<_> = (0..5)
            .map(|_| {
                progress.step();
                progress.percent()
            })
            .collect();
        assert_eq!(percent, [33, 66, 100, 100, 100]);
        assert_eq!(Progress::of("nothing", 0).percent(), 0);
    }
}
