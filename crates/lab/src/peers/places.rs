//! Where the machines of a cluster are: each is a network namespace with an address of its own, on a bridge with the others and
//! with whoever asks them. Without root each is an address on loopback.

use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::bench::{needs_root, run};
use super::cleaner::Cleaner;
use crate::error::LabError;

/// Machines, at most.
const MOST: u8 = 32;

/// Makes a bridge, and the namespaces on it. Addresses are of those that RFC 2544 sets aside for measurements. A bridge learns nobody's
/// address while a port is down: all are up before it ends.
const MAKE: &str = r#"
set -e
name=$1 net=$2 count=$3
ip link add "$name" type bridge
ip addr add "$net.254/24" dev "$name"
ip link set "$name" up
n=1
while [ $n -le "$count" ]; do
    ip netns add "$name-$n"
    ip link add "$name-$n" type veth peer name eth0 netns "$name-$n"
    ip link set "$name-$n" master "$name" up
    ip -n "$name-$n" addr add "$net.$n/24" dev eth0
    ip -n "$name-$n" link set eth0 up
    ip -n "$name-$n" link set lo up
    n=$((n + 1))
done
"#;

/// Ends what runs in the namespaces, and takes them away, and the bridge.
const UNDO: &str = r#"
name=$1 count=$2
n=1
while [ $n -le "$count" ]; do
    pids=$(ip netns pids "$name-$n" 2>/dev/null)
    [ -z "$pids" ] || kill -KILL $pids 2>/dev/null
    # With the namespace it would go too, but later.
    ip link del "$name-$n" 2>/dev/null
    ip netns del "$name-$n" 2>/dev/null
    n=$((n + 1))
done
ip link del "$name" 2>/dev/null
! ip netns list | grep -q "^$name-"
"#;

/// See the module. Dropped, or however this program ends: the namespaces are gone, with all that runs in them.
pub struct Places {
    /// What the namespaces' names begin with; nothing on loopback.
    name: Option<String>,
    /// The first three bytes of all addresses.
    net: [u8; 3],
    count: u8,
    _cleaner: Option<Cleaner>,
    /// Dropped after the addresses are gone.
    _held: Option<UnixListener>,
}

impl Places {
    /// So many, in namespaces if this is root. Errors: more than there can be, or the kernel makes no namespaces.
    pub fn make(count: u8) -> Result<Places, LabError> {
        if count > MOST {
            return Err(LabError::failed("making networks", format!("{count} machines, and {MOST} are the most")));
        }
        if needs_root().is_err() {
            return Ok(Places { name: None, net: [127, 2, 0], count, _cleaner: None, _held: None });
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        // No link has a longer name than 15 bytes.
        let name = format!("tjl{}x{}", std::process::id(), number % 10);
        let (net, held) = free_net(std::process::id().wrapping_add(number))?;
        let counted = count.to_string();
        let cleaner = Cleaner::by(UNDO, [&name, &counted])?;
        let [a, b, c] = net;
        run(Command::new("sh").args(["-c", MAKE, "sh", &name, &format!("{a}.{b}.{c}"), &counted]))?;
        Ok(Places { name: Some(name), net, count, _cleaner: Some(cleaner), _held: Some(held) })
    }

    /// Whether each is a namespace.
    pub fn are_apart(&self) -> bool {
        self.name.is_some()
    }

    /// The address of one, from 0 on.
    pub fn of(&self, n: u8) -> Ipv4Addr {
        let [a, b, c] = self.net;
        Ipv4Addr::new(a, b, c, n.saturating_add(1))
    }

    /// The address of this program, by which all of them reach it.
    pub fn here(&self) -> Ipv4Addr {
        self.of(253)
    }

    /// Cut each off from each other one, or join them again. All reach this program, and it reaches all; what they send each other is
    /// lost without a word. Errors: they are on loopback, or the kernel does not do it.
    pub fn part(&self, apart: bool) -> Result<(), LabError> {
        let name =
            self.name.as_ref().ok_or_else(|| LabError::failed("parting a network", "there is none on loopback"))?;
        let isolated = if apart { "on" } else { "off" };
        (1..=self.count).try_for_each(|n| {
            let port = format!("{name}-{n}");
            run(Command::new("ip").args(["link", "set", &port, "type", "bridge_slave", "isolated", isolated])).map(drop)
        })
    }

    /// A command that will run there, in a process group of its own.
    pub fn command(&self, n: u8, program: &Path) -> Command {
        let mut command = match &self.name {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &format!("{name}-{}", n + 1)]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.process_group(0);
        command
    }
}

/// Addresses that nothing on this machine has, neither another process's places nor what one that was killed has yet to undo; and what keeps others from them.
/// The search begins at this number.
fn free_net(from: u32) -> Result<([u8; 3], UnixListener), LabError> {
    let failed = |why: String| LabError::failed("making networks", why);
    for number in (0..=u8::MAX).map(|more| from.wrapping_add(more.into()) as u8) {
        let name = SocketAddr::from_abstract_name(format!("tinaja-lab-net-{number}"));
        let Ok(held) = UnixListener::bind_addr(&name.map_err(|why| failed(why.to_string()))?) else { continue };
        let net = format!("198.18.{number}.0/24");
        if run(Command::new("ip").args(["-o", "addr", "show", "to", &net]))?.trim().is_empty() {
            return Ok(([198, 18, number], held));
        }
    }
    Err(failed(
        "all addresses of 198.18.0.0/16 are taken: end what uses them, as other tests or laboratories".to_owned(),
    ))
}

/// A process with all that it has started. Dropped, they are killed.
pub struct ProcessGroup(Child);

impl ProcessGroup {
    /// Start it. Errors: it does not.
    pub fn start(command: &mut Command) -> std::io::Result<ProcessGroup> {
        command.process_group(0).spawn().map(ProcessGroup)
    }

    /// The number of the first process.
    pub fn number(&self) -> u32 {
        self.0.id()
    }

    /// Send the first process a signal; nothing happens if it has ended.
    pub fn tell(&self, signal: rustix::process::Signal) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Its end, if it has come to that by itself.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.0.id())
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each has its own address, which the others reach; and nothing is left of them.
    #[test]
    fn machines_reach_each_other_and_are_gone_afterwards() {
        let places = Places::make(2).unwrap();
        let mut addresses = vec![places.here(), places.of(0), places.of(1)];
        addresses.dedup();
        assert_eq!(addresses.len(), 3);
        let listener = std::net::TcpListener::bind((places.here(), 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let connect = format!("exec 3<>/dev/tcp/{}/{}", at.ip(), at.port());
        let status = places.command(1, Path::new("/bin/bash")).args(["-c", &connect]).status().unwrap();
        assert!(status.success());
        let from = listener.accept().unwrap().1.ip();
        let name = places.name.clone();
        assert!(name.is_none() || from == places.of(1), "{from}");
        let begin = std::time::Instant::now();
        let mut group =
            ProcessGroup::start(places.command(0, Path::new("/bin/sh")).args(["-c", "sleep 1000 & wait"])).unwrap();
        assert!(group.ended().is_none());
        drop(group);
        assert!(begin.elapsed().as_secs() < 60);
        drop(places);
        if let Some(name) = name {
            assert!(!run(Command::new("ip").args(["netns", "list"])).unwrap().contains(&name));
            assert!(!run(Command::new("ip").args(["link"])).unwrap().contains(&name));
        }
    }

    /// Those of two processes that begin at the same number are different ones.
    #[test]
    fn addresses_are_given_once_at_a_time() {
        if needs_root().is_err() {
            return;
        }
        let (first, held) = free_net(7).unwrap();
        let (second, _also) = free_net(7).unwrap();
        assert_ne!(first, second);
        let there = SocketAddr::from_abstract_name(format!("tinaja-lab-net-{}", first[2])).unwrap();
        assert!(UnixListener::bind_addr(&there).is_err());
        drop(held);
        let places = Places::make(1).unwrap();
        let made = places.net;
        assert_ne!(free_net(u32::from(made[2])).unwrap().0, made, "they are in use");
    }

    #[test]
    fn there_are_no_more_than_a_network_has_addresses() {
        assert!(Places::make(200).is_err_and(|why| why.to_string().contains("200 machines")));
    }
}
