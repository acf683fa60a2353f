//! io_uring and threads carry out the same requests in the same way, and the store keeps its contract over both.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;

use tempfile::TempDir;
use tinaja_store::contract::{Harness, Size, Subject, bytes_of};
use tinaja_store::device::{Access, Device, Disk, Io, IoEngine, Op, Outcome, Request, blocking};
use tinaja_store::memory::AlignedBuf;
use tinaja_store::{Cache, CacheOptions, Store, block_on};

fn place() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Whether this machine has io_uring: the tests of it say so and pass where it has not.
fn has_uring() -> bool {
    let (dir, path) = file(4096);
    let there = Disk::open(&path, Access::Alone, &Io::new(IoEngine::Uring, 1)).is_ok();
    drop(dir);
    if !there {
        eprintln!("SKIPPED: this kernel has no io_uring, or does not allow it");
    }
    there
}

fn file(bytes: usize) -> (TempDir, PathBuf) {
    let dir = place();
    let path = dir.path().join("disk");
    File::create(&path).unwrap().write_all(&bytes_of(1, bytes)).unwrap();
    (dir, path)
}

fn each_engine(test: impl Fn(IoEngine)) {
    test(IoEngine::Threads);
    if has_uring() {
        test(IoEngine::Uring);
    }
}

fn buffer(seed: u64, bytes: usize) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(bytes);
    buffer.copy_from_slice(&bytes_of(seed, bytes));
    buffer
}

#[test]
fn what_is_written_is_read_at_every_size() {
    each_engine(|engine| {
        let (_dir, path) = file(32 << 20);
        let disk = Disk::open(&path, Access::Alone, &Io::new(engine, 4)).unwrap();
        assert_eq!(disk.engine(), engine);
        for (n, bytes) in [4096, 8192, 65_536, 1 << 20, 8 << 20].into_iter().enumerate() {
            blocking::write(&disk, 4096 * n as u64, buffer(n as u64, bytes)).unwrap();
            assert!(blocking::read(&disk, 4096 * n as u64, bytes).unwrap()[..] == bytes_of(n as u64, bytes)[..]);
        }
        blocking::sync(&disk).unwrap();
        assert!(blocking::read(&disk, 0, 0).unwrap().is_empty());
        let counters = disk.counters();
        assert_eq!((counters.writes, counters.write_bytes), (5, 4096 + 8192 + 65_536 + (1 << 20) + (8 << 20)));
    });
}

/// Thousands of requests from several threads: each ends once, with its own bytes, and the queue is bounded.
#[test]
fn a_flood_is_carried_out_or_refused_and_every_request_ends_once() {
    each_engine(|engine| {
        let (_dir, path) = file(16 << 20);
        let whole = bytes_of(1, 16 << 20);
        let disk = Disk::open(&path, Access::Alone, &Io::new(engine, 4)).unwrap();
        let (ended, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        thread::scope(|scope| {
            for t in 0..4_usize {
                let (disk, whole, ended, refused) = (&disk, &whole, &ended, &refused);
                scope.spawn(move || {
                    for n in 0..3000_usize {
                        let at = (n * 7919 + t * 104_729) % 4000 * 4096;
                        let expected = whole.slice(at..at + 4096);
                        let (ended, refused) = (ended.clone(), refused.clone());
                        let done = move |outcome: Outcome| {
                            match outcome.result {
                                Ok(()) => assert!(outcome.buffer.unwrap()[..] == expected[..]),
                                Err(error) => {
                                    assert!(error.to_string().contains("queue is full"), "{error}");
                                    refused.fetch_add(1, SeqCst);
                                }
                            }
                            ended.fetch_add(1, SeqCst);
                        };
                        let request = Request::Read { at: at as u64, into: AlignedBuf::zeroed(4096) };
                        disk.submit(Op { request, done: Box::new(done) });
                    }
                });
            }
        });
        disk.stop();
        assert_eq!(ended.load(SeqCst), 12_000, "what waited at the stop was finished");
        let reads = disk.counters().reads;
        println!("{engine}: {reads} read, {} refused", refused.load(SeqCst));
        assert_eq!(reads + refused.load(SeqCst), 12_000);
        assert!(reads >= 4096);
    });
}

#[test]
fn ends_of_files_and_stops_are_errors() {
    each_engine(|engine| {
        let (_dir, path) = file(64 << 10);
        let disk = Disk::open(&path, Access::Alone, &Io::new(engine, 2)).unwrap();
        let error = blocking::read(&disk, 60 << 10, 8192).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "half of it is past the end");
        assert!(error.to_string().contains("read of 8192 bytes at offset 61440"), "{error}");
        File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
        assert_eq!(blocking::read(&disk, 8192, 4096).unwrap_err().kind(), ErrorKind::UnexpectedEof, "a file cut short");
        disk.stop();
        disk.stop();
        assert!(blocking::read(&disk, 0, 4096).unwrap_err().to_string().contains("stopped"));
    });
}

/// A completion may stop the device and drop its last owner, on the device's own thread.
#[test]
fn a_completion_may_drop_the_device() {
    each_engine(|engine| {
        let (_dir, path) = file(64 << 10);
        let disk = Arc::new(Disk::open(&path, Access::Alone, &Io::new(engine, 1)).unwrap());
        let (tell, told) = mpsc::channel();
        let (last, hold) = (disk.clone(), Arc::new(std::sync::Barrier::new(2)));
        let held = hold.clone();
        let done = move |_: Outcome| {
            held.wait();
            last.stop();
            drop(last);
            tell.send(()).unwrap();
        };
        disk.submit(Op { request: Request::Sync, done: Box::new(done) });
        drop(disk);
        hold.wait();
        told.recv().unwrap();
    });
}

/// The kernel refuses io_uring to this thread and to those it starts, as a container's filter does.
fn forbid_uring() {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, libc::SYS_io_uring_setup as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true).unwrap();
    // SAFETY: the program and its steps outlive the call, which changes nothing but what this thread may do.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0);
}

#[test]
fn where_the_kernel_refuses_io_uring_threads_do_it() {
    let dir = place();
    let cache = dir.path().join("cache");
    let options = |io| CacheOptions::new(&cache).disk_bytes(8 << 20).io(io);
    let path = file_of(&cache);
    thread::scope(|scope| {
        let refused = scope.spawn(|| {
            forbid_uring();
            block_on(Cache::open(options(IoEngine::Auto)).expect("threads").close()).unwrap();
            assert_eq!(
                Disk::open(&path, Access::Alone, &Io::new(IoEngine::Auto, 1)).unwrap().engine(),
                IoEngine::Threads
            );
            let error = Cache::open(options(IoEngine::Uring)).err().expect("it was insisted on").to_string();
            assert!(error.contains("cannot start io_uring for"), "{error}");
        });
        refused.join().unwrap();
    });
    if has_uring() {
        assert_eq!(Disk::open(&path, Access::Alone, &Io::new(IoEngine::Auto, 1)).unwrap().engine(), IoEngine::Uring);
    }
    assert_eq!("uring".parse(), Ok(IoEngine::Uring));
    assert!("fast".parse::<IoEngine>().unwrap_err().contains("auto, uring, threads"));
}

fn file_of(dir: &Path) -> PathBuf {
    dir.join("tinaja.cache")
}

struct OnDisk(IoEngine);

struct Opened {
    options: CacheOptions,
    cache: Option<Arc<Cache>>,
    _dir: TempDir,
}

impl Harness for OnDisk {
    fn fresh(&self, size: Size) -> Box<dyn Subject> {
        let dir = place();
        let options = CacheOptions::new(dir.path())
            .disk_bytes(if size == Size::Ample { 128 << 20 } else { 8 << 20 })
            .memory_bytes(0)
            .io(if self.0 == IoEngine::Uring && !has_uring() { IoEngine::Auto } else { self.0 });
        let cache = Some(Arc::new(Cache::open(options.clone()).unwrap()));
        Box::new(Opened { options, cache, _dir: dir })
    }

    fn sweeps(&self) -> bool {
        true
    }
}

impl Subject for Opened {
    fn store(&self) -> Arc<dyn Store> {
        self.cache.clone().unwrap()
    }

    fn reopen(&mut self) -> bool {
        if let Some(cache) = self.cache.take() {
            block_on(cache.close()).unwrap();
        }
        self.cache = Some(Arc::new(Cache::open(self.options.clone()).unwrap()));
        true
    }
}

mod by_uring {
    use super::*;
    tinaja_store::contract_tests!(OnDisk(IoEngine::Uring));
}

mod by_threads {
    use super::*;
    tinaja_store::contract_tests!(OnDisk(IoEngine::Threads));
}
