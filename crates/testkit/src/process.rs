//! Child processes that are gone when the test is, even when it panics.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A running server with its output in a file. Dropped, it is killed by its pid and waited for.
pub struct Process {
    child: Child,
    name: String,
    output: PathBuf,
}

impl Process {
    /// Start `command`; stdout and stderr go to `output`.
    pub fn start(name: &str, command: &mut Command, output: &Path) -> Self {
        Self::start_reading(Stdio::null(), name, command, output)
    }

    /// The same, and what it reads.
    pub fn start_with_input(name: &str, command: &mut Command, output: &Path) -> (Self, ChildStdin) {
        let mut process = Self::start_reading(Stdio::piped(), name, command, output);
        let input = process.child.stdin.take().unwrap();
        (process, input)
    }

    fn start_reading(input: Stdio, name: &str, command: &mut Command, output: &Path) -> Self {
        let out = File::options().create(true).append(true).open(output).unwrap();
        let err = out.try_clone().unwrap();
        let child = command.stdin(input).stdout(out).stderr(err).spawn();
        let child = child.unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Process { child, name: name.to_owned(), output: output.to_owned() }
    }

    /// Wait until something listens at `address`; panics with the output when the process ends first.
    pub fn wait_until_listening(&mut self, address: SocketAddr) {
        let began = Instant::now();
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{} ended with {status} before it listened:\n{}", self.name, self.output());
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{} never listened:\n{}", self.name, self.output());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything the process has printed.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ask it to stop (SIGTERM) and wait for the end.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// End it as a crash would (SIGKILL).
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, at most a minute.
    pub fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{} does not end:\n{}", self.name, self.output());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The most memory it ever held, in bytes (VmHWM).
    pub fn peak_memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM in /proc/PID/status");
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }
}

/// SIGKILL, for a process that others are using at this moment.
pub fn kill_now(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
}

impl Drop for Process {
    fn drop(&mut self) {
        let ended = self.child.try_wait().unwrap();
        if ended.is_none() {
            self.kill();
        }
        if std::thread::panicking() {
            let how = ended.map_or("runs".to_owned(), |status| format!("had ended with {status}"));
            eprintln!("--- output of {}, which {how} ---\n{}", self.name, self.output());
        }
    }
}
