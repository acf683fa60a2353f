//! Clients on kept connections, each asking for the next object as soon as it has one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Requests to be made, over some connections.
pub struct Load {
    paths: Vec<String>,
    connections: usize,
}

impl Load {
    pub fn new(paths: impl Iterator<Item = String>, connections: usize) -> Load {
        Load { paths: paths.collect(), connections }
    }

    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Asks for everything; how many answers say that they are hits.
    pub fn run(&self, server: SocketAddr) -> usize {
        let share = self.paths.len().div_ceil(self.connections);
        std::thread::scope(|scope| {
            let clients: Vec<_> =
                self.paths.chunks(share).map(|paths| scope.spawn(move || client(server, paths))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        })
    }
}

fn client(server: SocketAddr, paths: &[String]) -> usize {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::with_capacity(64 * 1024, stream);
    let mut line = String::new();
    let mut body = vec![0; super::BODY_BYTES];
    let mut hits = 0;
    for path in paths {
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n");
        reader.get_mut().write_all(request.as_bytes()).unwrap();
        let mut length = 0;
        for number in 0.. {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0, "closed at {path}");
            if line == "\r\n" {
                break;
            }
            let line = line.to_ascii_lowercase();
            if number == 0 {
                assert!(line.starts_with("http/1.1 200 "), "{line} for {path}");
            } else if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            } else if let Some(value) = line.strip_prefix("cache-status:").or(line.strip_prefix("x-cache-status:")) {
                hits += usize::from(value.contains("hit"));
            } else if let Some(value) = line.strip_prefix("via:") {
                // Traffic Server: found fresh in memory, or on its disk (its documentation, "Via Decoder Ring").
                hits += usize::from(value.contains("[cr") || value.contains("[ch"));
            }
        }
        assert_eq!(length, super::BODY_BYTES);
        reader.read_exact(&mut body).unwrap();
        assert!(body.iter().all(|byte| *byte == b'b'), "another body for {path}");
    }
    hits
}

/// Keeps every thread of a process on one core; threads that they start later stay there too.
pub fn pin(process: u32, core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    for task in std::fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        let task = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        sched_setaffinity(Pid::from_raw(task), &cores).unwrap();
    }
}
