//! No misuse goes unanswered, and what is not stored is told.

use std::io::SeekFrom;

use tinaja_files::{FileError, Files, Handle, MAX_OPEN_FILES};
use tinaja_store::contract::bytes_of;
use tinaja_store::{Hint, WhyNot, block_on};

use crate::support::{key, of_length, rest, store};

#[test]
fn misuse_is_an_error_each_time() {
    let (_dir, store) = store();
    let files = Files::default();
    assert_eq!(files.open(&store, &key("a")), Err(FileError::NotFound));
    let written = files.create(&store, &key("a"), b"", Hint::default()).unwrap();
    assert_eq!(files.read(written, &mut [0; 10]), Err(FileError::NotForReading(written)));
    files.write(written, b"x").unwrap();
    files.close(written).unwrap();
    let read = files.open(&store, &key("a")).unwrap();
    assert_ne!(read, written, "its place is used again");
    assert_eq!(files.write(read, b"x"), Err(FileError::NotForWriting(read)));
    assert_eq!(files.close(written), Err(FileError::Closed(written)));
    assert_eq!(files.write(written, b"x"), Err(FileError::Closed(written)));
    assert_eq!(files.read(written, &mut [0; 10]), Err(FileError::Closed(written)));
    assert_eq!(files.seek(written, SeekFrom::Start(0)), Err(FileError::Closed(written)));
    files.close(read).unwrap();
    for handle in [read, written] {
        assert_eq!(
            (files.close(handle), files.discard(handle)),
            (Err(FileError::Closed(handle)), Err(FileError::Closed(handle)))
        );
        assert_eq!(
            (files.length(handle), files.head(handle).err()),
            (Err(FileError::Closed(handle)), Some(FileError::Closed(handle)))
        );
    }
    for number in [0, 1, -1, i64::MAX, i64::MIN, 1 << 40] {
        let unknown = Handle(number);
        assert_eq!(files.read(unknown, &mut [0]), Err(FileError::Unknown(unknown)));
        assert_eq!(files.close(unknown), Err(FileError::Unknown(unknown)));
    }
}

#[test]
fn the_table_of_files_is_bounded() {
    let (_dir, store) = store();
    let files = Files::with_room_for(10);
    files.close(files.create(&store, &key("a"), b"", Hint::default()).unwrap()).unwrap();
    let all: Vec<_> = (0..10).map(|_| files.open(&store, &key("a")).unwrap()).collect();
    assert_eq!(files.open(&store, &key("a")), Err(FileError::Full(10)));
    assert_eq!(files.create(&store, &key("b"), b"", Hint::default()), Err(FileError::Full(10)));
    files.close(all[3]).unwrap();
    assert!(files.open(&store, &key("a")).is_ok());
    assert_eq!(files.read(all[3], &mut [0]), Err(FileError::Closed(all[3])));
    let files = Files::with_room_for(usize::MAX);
    (0..MAX_OPEN_FILES).for_each(|_| assert!(files.open(&store, &key("a")).is_ok()));
    assert_eq!(files.open(&store, &key("a")), Err(FileError::Full(MAX_OPEN_FILES)));
}

#[test]
fn what_is_not_stored_is_told_at_the_end_and_what_is_discarded_never_was() {
    let (_dir, store) = store();
    let files = Files::default();
    let short = files.create(&store, &key("a"), b"", of_length(5)).unwrap();
    files.write(short, b"four").unwrap();
    assert_eq!(files.close(short), Err(FileError::NotStored(WhyNot::LengthMismatch)));
    assert_eq!(files.close(short), Err(FileError::Closed(short)));
    for body in [&b"first"[..], b"second"] {
        let file = files.create(&store, &key("a"), b"", Hint::default()).unwrap();
        files.write(file, body).unwrap();
        if body == b"first" { files.close(file).map(drop) } else { files.discard(file) }.unwrap();
    }
    let file = files.open(&store, &key("a")).unwrap();
    assert_eq!(rest(&files, file, 100), b"first");
    // Who reads along hears of the end.
    let written = files.create(&store, &key("b"), b"", Hint::default()).unwrap();
    let along = files.open(&store, &key("b")).unwrap();
    assert_eq!(
        (files.length(along), files.seek(along, SeekFrom::End(0))),
        (Err(FileError::LengthUnknown), Err(FileError::LengthUnknown))
    );
    files.write(written, b"abc").unwrap();
    assert_eq!(files.read(along, &mut [0; 10]), Ok(3));
    files.discard(written).unwrap();
    assert!(matches!(files.read(along, &mut [0; 10]), Err(FileError::Read(_))));
    block_on(store.close()).unwrap();
    let late = files.create(&store, &key("c"), b"", Hint::default()).unwrap();
    assert_eq!(files.close(late), Err(FileError::NotStored(WhyNot::Closed)));
    assert_eq!(files.open(&store, &key("a")), Err(FileError::NotFound));
}

#[test]
fn one_handle_used_by_many_threads_loses_no_byte() {
    let (_dir, store) = store();
    let files = Files::default();
    let body = bytes_of(9, 400_000);
    let file = files.create(&store, &key("a"), b"", Hint::default()).unwrap();
    files.write(file, &body).unwrap();
    files.close(file).unwrap();
    let file = files.open(&store, &key("a")).unwrap();
    let read: usize = std::thread::scope(|scope| {
        let one = || rest(&files, file, 1000).len();
        let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(read, body.len());
    let closed: usize = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| usize::from(files.close(file).is_ok()))).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(closed, 1);
}
