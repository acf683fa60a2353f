//! A disk that is full before the cache is: clients get every byte, what is stored is right, the service goes on.

use crate::support::small_disk::SmallDisk;
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;

const FLAGS: [&str; 4] = ["--memory", "8MiB", "--allow-destination", "127.0.0.0/8"];

#[test]
fn small_objects_until_the_disk_is_full_and_after() {
    let Some(disk) = SmallDisk::mount(24 << 20) else { return };
    let setup = disk.put_cache("256MiB", &FLAGS);
    let origin = Origin::of_patterns();
    let mut proxy = setup.start();
    let paths: Vec<_> = [100, 3_000, 40_000, 700_000].iter().flat_map(|len| (0..60).map(move |n| (*len, n))).collect();
    let mut hits = [0, 0];
    for hits in &mut hits {
        for (len, n) in &paths {
            let path = format!("/{len}/{n}");
            let response = proxy.get(&origin.url(&path)).unwrap();
            assert!(response.status == 200 && response.body == body(&path, *len), "{path}: {:?}", response.head);
            *hits += usize::from(response.is_hit());
        }
    }
    println!("hits on a disk that holds half: {hits:?} of {}", paths.len());
    assert!(hits[0] == 0 && hits[1] < paths.len());
    // In the middle of all that it stops and starts like any other.
    proxy.process.terminate();
    let mut proxy = setup.start();
    for (len, n) in &paths {
        let path = format!("/{len}/{n}");
        assert!(proxy.get(&origin.url(&path)).unwrap().body == body(&path, *len), "{path}");
    }
    assert!(proxy.process.is_running());
}
