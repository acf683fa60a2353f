//! Starting the process that is to take over from this one, and finding out what becomes of it.

use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use tinaja_clock::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::crowd::Crowd;

/// Starts a process that takes over. Errors: why there is none, in words.
pub type Successor = Arc<dyn Fn() -> Result<Child, String> + Send + Sync>;

/// The new process must have taken over within this; it is ended if not.
const PATIENCE: Duration = Duration::from_secs(120);
/// One that has failed has so long to end by itself.
const ENDING: Duration = Duration::from_secs(5);
/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Whoever asked for it is told within this, though the server ends.
const TELLING: Duration = Duration::from_secs(2);

/// One upgrade at a time, and how the last hand-over went.
pub(crate) struct Upgrade {
    successor: Option<Successor>,
    only: Semaphore,
    asking: Crowd,
    /// Whoever has taken over.
    heir: watch::Sender<Option<u32>>,
    /// Who has not, the last time that somebody was to, and why.
    failed: watch::Sender<(u32, String)>,
    clock: Clock,
}

impl Upgrade {
    pub fn new(successor: Option<Successor>, clock: Clock) -> Upgrade {
        let failed = watch::Sender::new((0, String::new()));
        let (only, asking) = (Semaphore::new(1), Crowd::new(usize::MAX));
        Upgrade { successor, only, asking, heir: watch::Sender::new(None), failed, clock }
    }

    /// Starts a process, and waits until it has taken over; its id.
    ///
    /// Errors: it has not, and why.
    pub async fn run(&self) -> Result<u32, String> {
        let successor = self.successor.clone().ok_or("this server does not know how it was started")?;
        let _only = self.only.try_acquire().map_err(|_| "it is being upgraded already: wait for the end of that")?;
        self.failed.send_replace((0, String::new()));
        let started = self.clock.block(move || successor()).await;
        let mut child = started.map_err(|error| format!("starting a new process was ended: {error}"))??;
        let (mut heir, mut failed) = (self.heir.subscribe(), self.failed.subscribe());
        let taken = async {
            // One that has failed ends by itself, unless it hangs.
            let started = child.id();
            let hangs = async {
                let _ = failed.wait_for(|(process, _)| *process == started).await;
                self.clock.timer(ENDING).await;
            };
            tokio::select! {
                Ok(process) = heir.wait_for(Option::is_some) => Ok(process.unwrap_or_default()),
                ended = self.ended(&mut child) => Err(ended),
                () = hangs => Err("it was ended".to_owned()),
            }
        };
        let why = match self.clock.timeout(PATIENCE, taken).await {
            Ok(Ok(process)) => return Ok(process),
            Ok(Err(why)) => why,
            Err(_) => format!("it had not taken over after {} s, and was ended", PATIENCE.as_secs()),
        };
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
        let told = self.failed.borrow().1.clone();
        let told = if told.is_empty() { "its log says why".to_owned() } else { told };
        Err(format!("the new process did not take over; this one keeps serving: {why}; {told}"))
    }

    /// Somebody has taken over.
    pub fn handed_over(&self, process: u32) {
        self.heir.send_replace(Some(process));
    }

    /// A process was to take over and has not.
    pub fn failed(&self, process: u32, why: &str) {
        self.failed.send_replace((process, why.to_owned()));
    }

    /// Held while somebody is waiting for an answer.
    pub fn telling(&self) -> Option<OwnedSemaphorePermit> {
        self.asking.enter()
    }

    /// Waits until whoever asked for something, the upgrade above all, has been told how it went.
    pub async fn told(&self) {
        self.asking.emptied(&self.clock, TELLING).await;
    }

    /// How a process has ended, once it has.
    async fn ended(&self, child: &mut Child) -> String {
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return format!("it ended with {status}"),
                Ok(None) => self.clock.timer(LOOK_EVERY).await,
                Err(error) => return format!("it cannot be waited for: {error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use parking_lot::Mutex;
    use tinaja_clock::ManualClock;

    use super::*;

    /// A successor that hung after it had said that it serves kept whoever asked for the upgrade, and the next upgrade, waiting.
    #[tokio::test]
    async fn a_successor_that_hangs_is_ended() {
        let hand = ManualClock::new();
        let started = Arc::new(Mutex::new(None));
        let kept = started.clone();
        let successor: Successor = Arc::new(move || {
            let child = Command::new("sleep").arg("1000").spawn().map_err(|error| error.to_string())?;
            *kept.lock() = Some(child.id());
            Ok(child)
        });
        let upgrade = Arc::new(Upgrade::new(Some(successor), hand.clock()));
        let running = tokio::spawn({
            let upgrade = upgrade.clone();
            async move { upgrade.run().await }
        });
        while started.lock().is_none() {
            tokio::task::yield_now().await;
        }
        let process = started.lock().unwrap();
        upgrade.failed(process, "it hangs");
        while !running.is_finished() {
            hand.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let why = running.await.unwrap().unwrap_err();
        assert!(why.contains("keeps serving: it was ended; it hangs"), "{why}");
        assert!(!std::path::Path::new(&format!("/proc/{process}")).exists(), "{process} runs on");
    }
}
