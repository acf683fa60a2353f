//! All nodes of a cluster as processes, in network namespaces of their own where there is root: shared memory alone connects them.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tinaja_cluster::members::Role;

use super::super::other::Started;
use super::member::{MEMBER, Part};
use crate::error::LabError;
use crate::peers::needs_root;

/// How long after the last request idle nodes are measured.
const SETTLES: Duration = Duration::from_secs(1);

/// See the module. Dropped, they end.
pub struct Crew(Vec<Hand>);

struct Hand {
    part: Part,
    process: Started,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

/// What happened while requests ran.
pub struct Ran {
    /// What all nodes counted, together.
    pub counts: BTreeMap<String, u64>,
    pub took: Duration,
    /// Processor time of all proxies, and of all passive nodes.
    pub proxies: Duration,
    pub passive: Duration,
}

impl Crew {
    /// Start them, and make them known to each other. Errors: one does not start, with why.
    pub fn start(experiment: &str, parts: &[Part]) -> Result<Crew, LabError> {
        let mut hands = parts.iter().map(|part| Hand::start(experiment, *part)).collect::<Result<Vec<_>, _>>()?;
        let mut members = Vec::new();
        for hand in &mut hands {
            let told = hand.answer("told")?;
            let role = if hand.part.role == Role::Proxy { "proxy" } else { "passive" };
            members.push(format!("member {} {role} {told}", hand.part.id));
        }
        members.push("go".to_owned());
        for hand in &mut hands {
            members.iter().try_for_each(|line| hand.tell(line))?;
        }
        Ok(Crew(hands))
    }

    /// Have the proxies send so many requests each.
    pub fn run(&mut self, requests: u64) -> Result<Ran, LabError> {
        let counts = self.counts()?;
        let cpu = self.cpu();
        let began = Instant::now();
        let proxies = |hands: &mut Vec<Hand>, each: &mut dyn FnMut(&mut Hand) -> Result<(), LabError>| {
            hands.iter_mut().filter(|hand| hand.part.role == Role::Proxy).try_for_each(each)
        };
        proxies(&mut self.0, &mut |hand| hand.tell(&format!("run {requests}")))?;
        proxies(&mut self.0, &mut |hand| hand.answer("ended").map(drop))?;
        let took = began.elapsed();
        let after = self.cpu();
        let mut counted = self.counts()?;
        for (name, before) in &counts {
            // How much there is of these, and not how often something happened.
            if let Some(count) =
                counted.get_mut(name).filter(|_| !["listed", "duplicate bytes"].contains(&name.as_str()))
            {
                *count -= before;
            }
        }
        Ok(Ran { counts: counted, took, proxies: after.0 - cpu.0, passive: after.1 - cpu.1 })
    }

    /// Of one processor, what all of them take together while nobody asks for anything, and what was on its way when the last request
    /// ended has come: for half a second after it, nodes that got more messages than they could take have both processors busy.
    pub fn idle(&self, lasts: Duration) -> f64 {
        std::thread::sleep(SETTLES);
        let (began, before) = (Instant::now(), self.cpu());
        std::thread::sleep(lasts);
        let after = self.cpu();
        (after.0 + after.1 - before.0 - before.1).as_secs_f64() / began.elapsed().as_secs_f64()
    }

    fn cpu(&self) -> (Duration, Duration) {
        let of = |role| self.0.iter().filter(|hand| hand.part.role == role).map(|hand| hand.process.cpu()).sum();
        (of(Role::Proxy), of(Role::Passive))
    }

    fn counts(&mut self) -> Result<BTreeMap<String, u64>, LabError> {
        let mut all = BTreeMap::new();
        for hand in &mut self.0 {
            hand.tell("counts")?;
            let counts = hand.answer("counts")?;
            for (name, count) in counts.split(';').filter_map(|one| one.split_once('=')) {
                *all.entry(name.to_owned()).or_default() += count.parse::<u64>().unwrap_or_default();
            }
        }
        Ok(all)
    }
}

impl Hand {
    fn start(experiment: &str, part: Part) -> Result<Hand, LabError> {
        let failed = |why: std::io::Error| LabError::failed("starting a node of a cluster", why);
        let program = env::current_exe().map_err(failed)?;
        let mut command = match needs_root() {
            Ok(()) => {
                let mut command = Command::new("unshare");
                command.arg("--net").arg(program);
                command
            }
            Err(_) => Command::new(program),
        };
        command.args(["lab", experiment]).env(MEMBER, part.to_text()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Started(command.spawn().map_err(failed)?);
        let gone = || LabError::failed("starting a node of a cluster", "it has no input or output");
        let to = process.0.stdin.take().ok_or_else(gone)?;
        let from = BufReader::new(process.0.stdout.take().ok_or_else(gone)?).lines();
        Ok(Hand { part, process, to, from })
    }

    fn tell(&mut self, line: &str) -> Result<(), LabError> {
        writeln!(self.to, "{line}").map_err(|why| LabError::failed("telling a node of a cluster what to do", why))
    }

    /// The rest of its next line that begins with this word.
    fn answer(&mut self, word: &str) -> Result<String, LabError> {
        let lines = self.from.by_ref().map_while(Result::ok);
        let found = lines.filter_map(|line| line.strip_prefix(word).map(|rest| rest.trim_start().to_owned())).next();
        found.ok_or_else(|| LabError::failed("waiting for a node of a cluster", format!("node {} ended", self.part.id)))
    }
}
