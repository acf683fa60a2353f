//! Taking over from an old process, and handing over to a new one: who accepts connections, and who has the cache, at each step.

use std::pin::pin;
use std::time::Duration;

use tinaja_store::{OpenDiskError, OpenError, Store};
use tokio::task::JoinSet;

use super::handover::{Heir, Predecessor, open_unlocked};
use super::running::Accepting;
use super::server::Proxy;
use crate::errors::TakeOverError;
use crate::storage::{Opener, Storage};

/// When the proxy is handed over, fetches that are nearly done have so long to be stored. Clients' requests pass by the cache
/// meanwhile.
const SETTLING: Duration = Duration::from_millis(250);
/// A new process that is told that the cache is free takes its lock at once. One that has not by then hangs.
const HANGING: Duration = Duration::from_secs(10);

/// What came of a hand-over.
pub(super) enum Left {
    /// Another process has it all.
    All { process: u32 },
    /// It is as it was before.
    Nothing,
}

/// What became of a process that was told that the cache is free.
enum Settled {
    /// It has opened it.
    Over,
    /// It does not, and accepts no more connections.
    Failed(String),
    /// It does nothing, and the cache is this process's again.
    Hangs(Storage),
}

impl Proxy {
    /// Takes over from another process, which has passed on its sockets already.
    pub(super) async fn take_over(
        &mut self,
        predecessor: Predecessor,
        open: &Opener,
        accepting: &mut Accepting,
        stop: &mut impl AsyncFnMut(),
    ) -> Result<(), TakeOverError> {
        let mut talk = predecessor.talk(self.exchange.shared.clock.clone())?;
        let taken = tokio::select! {
            () = stop() => Err(TakeOverError::Stopped),
            taken = talk.take_cache(&self.switch, &self.exchange.shared.bans, open) => taken,
        };
        match taken {
            Ok(without) => {
                self.own_control(true);
                self.exchange.shared.metrics.as_ref().inspect(|metrics| metrics.hand_over.took(without));
                tracing::info!(
                    "took over from the previous process; requests bypassed the cache for {} ms",
                    without.as_millis()
                );
                Ok(())
            }
            Err(error) => {
                accepting.stop().await;
                talk.give_up(error.to_string()).await;
                Err(error)
            }
        }
    }

    /// Hands over to another process. While that goes on, what comes is first this process's and then the other's.
    pub(super) async fn hand_over(
        &mut self,
        mut heir: Heir,
        accepting: &mut Accepting,
        control: &mut JoinSet<()>,
        open: &Opener,
    ) -> Left {
        let shared = self.exchange.shared.clone();
        if let Err(why) = heir.equip(&self.sockets).await {
            tracing::error!("the new process did not take over; this one keeps serving: {why}");
            self.control_server.upgrade.failed(heir.process(), &why);
            shared.metrics.as_ref().inspect(|metrics| metrics.hand_over.refused.inc());
            return Left::Nothing;
        }
        accepting.stop().await;
        control.shutdown().await;
        self.own_control(false);
        self.exchange.finished(SETTLING).await;
        self.switch.leave();
        // Before the other process reads them.
        shared.bans.leave();
        if let Err(error) = self.switch.close().await {
            tracing::error!(%error, "could not write the last objects to disk before the hand-over");
        }
        heir.release().await;
        let (why, cache) = match self.settled(&mut heir, accepting, open).await {
            Settled::Over => {
                // Again, if this process has served beside the other meanwhile.
                accepting.stop().await;
                tracing::info!("handed over; connections still open: {}", self.crowd.present());
                return Left::All { process: heir.process() };
            }
            Settled::Failed(why) => (why, None),
            Settled::Hangs(cache) => {
                let seconds = HANGING.as_secs();
                (format!("it has not begun to open the cache within {seconds} s, and hangs"), Some(cache))
            }
        };
        tracing::error!("the new process took over and then failed; this one resumes: {why}");
        // Whoever started it ends it.
        self.control_server.upgrade.failed(heir.process(), &why);
        shared.metrics.as_ref().inspect(|metrics| metrics.hand_over.taken_back.inc());
        match cache {
            Some(cache) => {
                shared.bans.take(shared.clock.wall(), cache.saved_epoch());
                self.switch.take_in(cache);
            }
            None => self.take_back(open).await,
        }
        *accepting = self.accept().await;
        self.own_control(true);
        *control = self.open_control();
        Left::Nothing
    }

    /// Waits until the new process has opened the cache, which may take long: it serves meanwhile, and has the cache's lock.
    ///
    /// One that hangs has neither, and nobody would serve. So after [`HANGING`] this process accepts connections beside it, past the
    /// cache, and takes the cache's lock if that is free: a process that comes to itself later finds the cache in use, and gives up.
    async fn settled(&self, heir: &mut Heir, accepting: &mut Accepting, open: &Opener) -> Settled {
        let clock = self.exchange.shared.clock.clone();
        let mut settled = pin!(heir.settled());
        let mut beside = false;
        loop {
            match clock.timeout(HANGING, &mut settled).await {
                Ok(Ok(())) => return Settled::Over,
                Ok(Err(why)) => return Settled::Failed(why),
                Err(_) => {}
            }
            if !std::mem::replace(&mut beside, true) {
                tracing::warn!(
                    "the new process has not opened the cache yet; this one serves beside it, past the cache"
                );
                *accepting = self.accept().await;
            }
            let open = open.clone();
            match clock.block(move || open()).await {
                Ok(Ok(cache)) => return Settled::Hangs(cache),
                // It is being opened.
                Ok(Err(OpenError::Disk(OpenDiskError::InUse(_) | OpenDiskError::Claimed(_)))) => {}
                Ok(Err(error)) => tracing::error!("the cache cannot be taken back: {error}"),
                Err(error) => tracing::error!("taking the cache back was ended: {error}"),
            }
        }
    }

    /// Opens the cache again. Without it, the proxy serves on all the same.
    async fn take_back(&self, open: &Opener) {
        match open_unlocked(open, &self.exchange.shared.clock).await {
            Ok(storage) => {
                let shared = &self.exchange.shared;
                shared.bans.take(shared.clock.wall(), storage.saved_epoch());
                self.switch.take_in(storage);
            }
            Err(error) => tracing::error!(%error, "serving without a cache until the next start"),
        }
    }

    fn own_control(&mut self, own: bool) {
        self.control.iter_mut().for_each(|socket| socket.own(own));
    }
}

/// A new process that says that it serves, and then nothing more.
///
/// The old one had stopped accepting connections by then, and waited for it without limit: nobody was served until somebody ended one
/// of the two by hand.
#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::JoinHandle;

    use tinaja_clock::ManualClock;
    use tinaja_store::Reference;
    use tinaja_testkit::origin::Origin;
    use tinaja_testkit::wait::eventually;
    use tokio::sync::mpsc;

    use super::super::server::{Outside, Server, runtime};
    use super::*;
    use crate::config::{Config, Listener};
    use crate::storage::Switch;

    /// A reverse proxy whose cache can be handed over, and opened again by `open`.
    fn serving(
        dir: &Path,
        origin: &Origin,
        hand: &ManualClock,
        open: Opener,
    ) -> (SocketAddr, mpsc::UnboundedSender<()>, JoinHandle<()>) {
        let listener = Listener::reverse("127.0.0.1:0".parse().unwrap(), origin.url("").parse().unwrap());
        let config = Config { listeners: vec![listener], control: Some(dir.to_owned()), ..Config::default() };
        let runtime = runtime(&config).unwrap();
        let outside = Outside { dirs: Some(Vec::new()), ..Outside::default() };
        let switch = Switch::holding(Arc::new(Reference::by(hand.clock())));
        let (proxy, _) = Proxy::bind(config, switch, outside).unwrap();
        let address = proxy.addresses[0];
        let (stop, mut stopped) = mpsc::unbounded_channel();
        let running = std::thread::spawn(move || {
            let stop = async move || {
                stopped.recv().await;
            };
            Server { runtime, proxy }.run_after(None, &open, Box::new(|_| ()), stop).unwrap();
        });
        (address, stop, running)
    }

    /// What the server says to somebody who asks for its sockets and says that it serves.
    fn successor(dir: &Path) -> BufReader<UnixStream> {
        let mut stream = BufReader::new(UnixStream::connect(dir.join("tinaja.sock")).unwrap());
        let hear = |stream: &mut BufReader<UnixStream>, what: &str| {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            assert!(line.contains(what), "{line}");
        };
        writeln!(stream.get_mut(), r#"{{"ask":"hand_over","protocol":1,"cache":[]}}"#).unwrap();
        hear(&mut stream, "handing_over");
        writeln!(stream.get_mut(), r#"{{"step":"serving"}}"#).unwrap();
        hear(&mut stream, "released");
        stream
    }

    /// The Cache-Status of one answer, if one comes soon.
    fn cache_status(address: SocketAddr) -> Option<String> {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        stream.write_all(b"GET /300/object HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        answer.lines().find(|line| line.starts_with("cache-status:")).map(str::to_owned)
    }

    /// Waits for the old process's end. It waits for connections that have not quite ended, by the clock: where that stood still, and a
    /// connection was a moment late, the test waited for ever.
    fn ended(hand: &ManualClock, running: JoinHandle<()>) {
        eventually("the end of the old process", || {
            hand.advance(Duration::from_secs(1));
            running.is_finished()
        });
        running.join().unwrap();
    }

    #[test]
    fn one_that_hangs_before_it_opens_the_cache_loses_it_again() {
        let (dir, origin, hand) = (tempfile::tempdir().unwrap(), Origin::of_patterns(), ManualClock::new());
        let clock = hand.clock();
        let open: Opener = Arc::new(move || Ok(Arc::new(Reference::by(clock.clone()))));
        let (address, stop, running) = serving(dir.path(), &origin, &hand, open);
        let mut hung = successor(dir.path());
        let mut waited = Duration::ZERO;
        eventually("a hit of the old process's", || {
            waited += Duration::from_secs(1);
            hand.advance(Duration::from_secs(1));
            cache_status(address).is_some_and(|status| status.contains("hit"))
        });
        assert!(waited >= HANGING, "{waited:?}");
        // It sees that nobody listens to it any more.
        assert_eq!(hung.read_to_end(&mut Vec::new()).unwrap(), 0);
        stop.send(()).unwrap();
        ended(&hand, running);
    }

    #[test]
    fn one_that_takes_long_to_open_the_cache_is_waited_for_and_everybody_is_served_meanwhile() {
        let (dir, origin, hand) = (tempfile::tempdir().unwrap(), Origin::of_patterns(), ManualClock::new());
        let asked = Arc::new(AtomicBool::new(false));
        let tried = asked.clone();
        let open: Opener = Arc::new(move || {
            tried.store(true, Ordering::SeqCst);
            Err(OpenError::Disk(OpenDiskError::InUse("the other has it".into())))
        });
        let (address, _stop, running) = serving(dir.path(), &origin, &hand, open);
        let mut slow = successor(dir.path());
        eventually("an answer past the cache", || {
            hand.advance(Duration::from_secs(1));
            let served = cache_status(address).is_some_and(|status| status.contains("fwd=bypass"));
            served && asked.load(Ordering::SeqCst)
        });
        writeln!(slow.get_mut(), r#"{{"step":"done"}}"#).unwrap();
        // Nothing is left to be done: it is over.
        ended(&hand, running);
    }
}
