//! A name server that lies as it is told, for names that change their minds.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Mutex};

const A: u16 = 1;
const AAAA: u16 = 28;

/// How often each name was asked for, for IPv4 addresses.
type Counts = Arc<Mutex<BTreeMap<String, usize>>>;

/// A name server on loopback, at the port that the system's resolver asks (RFC 1035). Its thread ends with the process.
pub struct NameServer {
    pub address: IpAddr,
    asked: Counts,
}

impl NameServer {
    /// Answers by `addresses`: those of a name when it is asked for the n-th time, from 0. None of them may be kept.
    ///
    /// Errors: the port is one that this user may not have.
    pub fn start(
        address: IpAddr,
        addresses: impl Fn(&str, usize) -> Vec<IpAddr> + Send + 'static,
    ) -> std::io::Result<NameServer> {
        let socket = UdpSocket::bind((address, 53))?;
        let asked = Counts::default();
        let counts = asked.clone();
        std::thread::spawn(move || {
            let mut space = [0; 512];
            while let Ok((count, from)) = socket.recv_from(&mut space) {
                let Some((name, kind, question)) = question(&space[..count]) else { continue };
                let number = {
                    let mut counts = counts.lock().unwrap();
                    let count = counts.entry(name.clone()).or_default();
                    *count += usize::from(kind == A);
                    // Both kinds are asked for at once, in either order; they are one time.
                    count.saturating_sub(1)
                };
                let answer = answer(&space[..2], &question, kind, &addresses(&name, number));
                let _ = socket.send_to(&answer, from);
            }
        });
        Ok(NameServer { address, asked })
    }

    /// How often a name was asked for.
    pub fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

/// The name and the kind that a query asks for, and its bytes (RFC 1035 4.1.2).
fn question(query: &[u8]) -> Option<(String, u16, Vec<u8>)> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8(query.get(at..at + length)?.to_ascii_lowercase()).ok()?);
        at += length;
    }
    let kind = u16::from_be_bytes(query.get(at..at + 2)?.try_into().ok()?);
    Some((labels.join("."), kind, query.get(12..at + 4)?.to_vec()))
}

/// An answer with the addresses of that kind, each for no time at all.
fn answer(id: &[u8], question: &[u8], kind: u16, addresses: &[IpAddr]) -> Vec<u8> {
    let records: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|address| match address {
            IpAddr::V4(v4) if kind == A => Some(v4.octets().to_vec()),
            IpAddr::V6(v6) if kind == AAAA => Some(v6.octets().to_vec()),
            _ => None,
        })
        .collect();
    let count = (records.len() as u16).to_be_bytes();
    let mut answer = [id, &[0x85, 0x80, 0, 1], &count, &[0; 4], question].concat();
    for record in records {
        // The name is the question's, the class is the Internet.
        answer.extend_from_slice(&[0xc0, 12]);
        answer.extend_from_slice(&kind.to_be_bytes());
        answer.extend_from_slice(&[0, 1, 0, 0, 0, 0]);
        answer.extend_from_slice(&(record.len() as u16).to_be_bytes());
        answer.extend_from_slice(&record);
    }
    answer
}
