//! Which core the servers run on, one at a time busy, and which this process.

use std::path::Path;
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The thread that made it, and all that it starts from then on, on the cores that the servers are not on. Dropped, the thread is where it was.
pub struct Cores {
    /// The servers' core; `None` where this process has one core only, which then is everybody's.
    served: Option<usize>,
    former: Option<CpuSet>,
}

impl Cores {
    /// Leave the first core to the servers.
    pub fn split() -> Cores {
        let Ok(former) = sched_getaffinity(None) else { return Cores { served: None, former: None } };
        let mut own: Vec<_> = (0..CpuSet::MAX_CPU).filter(|core| former.is_set(*core)).collect();
        if own.len() < 2 {
            return Cores { served: None, former: None };
        }
        let served = own.remove(0);
        let mut others = CpuSet::new();
        own.iter().for_each(|core| others.set(*core));
        match sched_setaffinity(None, &others) {
            Ok(()) => Cores { served: Some(served), former: Some(former) },
            Err(_) => Cores { served: None, former: None },
        }
    }

    /// The servers' core, if they have one to themselves.
    pub fn served(&self) -> Option<usize> {
        self.served
    }

    /// A command that begins a program there.
    pub fn command(&self, program: &Path) -> Command {
        let Some(core) = self.served else { return Command::new(program) };
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string()]).arg(program);
        command
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        if let Some(former) = &self.former {
            let _ = sched_setaffinity(None, former);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_a_core_to_themselves_and_afterwards_all_is_as_before() {
        let before = sched_getaffinity(None).unwrap();
        let cores = Cores::split();
        if let Some(served) = cores.served() {
            assert!(before.is_set(served) && !sched_getaffinity(None).unwrap().is_set(served));
            let said = cores.command(Path::new("sh")).args(["-c", "taskset -cp $$"]).output().unwrap();
            let said = String::from_utf8(said.stdout).unwrap();
            assert!(said.trim().ends_with(&format!(": {served}")), "{said}");
        }
        drop(cores);
        assert!(before == sched_getaffinity(None).unwrap());
    }
}
