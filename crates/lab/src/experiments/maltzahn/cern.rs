//! CERN's layout (section 2.3.1), as the paper's workload generator mimics it: a directory for each component of a URL, a metadata file in it
//! that lists what may be served, a lock file while an object is written, and nothing in memory from one request to the next.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use tinaja_store::engine::trees::urls::Address;

use crate::load::Request;

/// The metadata file of a directory. No component of a URL is called so: they are escaped.
const METADATA: &str = ",metadata";
/// What follows an object's name in that of its file, which is no directory's then, and of its lock file.
const OBJECT: &str = ",object";
const LOCK: &str = ",lock";

/// What was done about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It was there, with so many bytes.
    Hit(u64),
    /// It was not, and is now.
    Stored,
    /// Another process writes it: it is fetched, and the cache stays as it is.
    Locked,
}

/// A cache. Each request does what a process of its own would.
pub struct Cern {
    root: PathBuf,
    lists: Lists,
}

/// How a metadata file is written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// Cut to nothing first, as programs do.
    Cut,
    /// In place: it only grows.
    InPlace,
}

impl Cern {
    /// Beneath a directory that is there.
    pub fn beneath(root: &Path, lists: Lists) -> Cern {
        Cern { root: root.to_path_buf(), lists }
    }

    /// One request, at a time in seconds: read the object into `into` if it is there and has not expired, else store `body` until `expires`.
    /// Errors: the system's.
    pub fn request(&self, url: &str, now: u64, body: &[u8], expires: u64, into: &mut Vec<u8>) -> io::Result<Served> {
        let Address { directory, name } = Address::of_url(url);
        let directory = self.root.join(directory);
        let [object, lock] = [OBJECT, LOCK].map(|end| directory.join(format!("{name}{end}")));
        if fs::symlink_metadata(&lock).is_ok() {
            return Ok(Served::Locked);
        }
        let listed = read_metadata(&directory)?;
        if listed.iter().any(|entry| entry.name == name && entry.expires > now) {
            into.clear();
            match File::open(&object).and_then(|mut file| file.read_to_end(into)) {
                Ok(bytes) => return Ok(Served::Hit(bytes as u64)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        fs::create_dir_all(&directory)?;
        match OpenOptions::new().write(true).create_new(true).open(&lock) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(Served::Locked),
            made => drop(made?),
        }
        fs::write(&object, body)?;
        write_metadata(&directory, &listed, &Entry { name, expires }, self.lists)?;
        fs::remove_file(&lock)?;
        Ok(Served::Stored)
    }
}

/// URLs for a load that has none: an object lies with the page that it was asked for with first, and each 16 pages of a host in one directory, in
/// the order of their first requests. Memory: some 100 bytes an object.
#[derive(Default)]
pub struct Urls {
    /// Pages of each host so far.
    pages: HashMap<u64, u64>,
    /// The section of each object.
    sections: HashMap<u64, u64>,
}

const PAGES_IN_A_SECTION: u64 = 16;

impl Urls {
    /// Of the next request.
    pub fn url(&mut self, request: &Request) -> String {
        let Request { object, host, referer, .. } = *request;
        let page = referer.unwrap_or(object);
        let section = self.sections.get(&object).or(self.sections.get(&page)).copied().unwrap_or_else(|| {
            let pages = self.pages.entry(host).or_default();
            *pages += 1;
            (*pages - 1) / PAGES_IN_A_SECTION
        });
        self.sections.entry(page).or_insert(section);
        self.sections.entry(object).or_insert(section);
        format!("http://host-{host:x}.test/{section}/{object:x}")
    }
}

/// What a metadata file says of one object.
struct Entry {
    name: String,
    expires: u64,
}

/// None where there is no file; lines that are none of ours are passed over.
fn read_metadata(directory: &Path) -> io::Result<Vec<Entry>> {
    let text = match fs::read_to_string(directory.join(METADATA)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let entry = |line: &str| {
        let (name, expires) = line.split_once(' ')?;
        Some(Entry { name: name.to_owned(), expires: expires.parse().ok()? })
    };
    Ok(text.lines().filter_map(entry).collect())
}

fn write_metadata(directory: &Path, listed: &[Entry], new: &Entry, lists: Lists) -> io::Result<()> {
    let mut text = String::new();
    for entry in listed.iter().filter(|entry| entry.name != new.name).chain([new]) {
        text += &format!("{} {}\n", entry.name, entry.expires);
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(lists == Lists::Cut);
    let mut file = options.open(directory.join(METADATA))?;
    file.write_all(text.as_bytes())?;
    // Numbers of another length may have made it shorter.
    if file.metadata()?.len() > text.len() as u64 { file.set_len(text.len() as u64) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::load::request;
    use super::*;

    fn files(dir: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut waiting = vec![dir.to_path_buf()];
        while let Some(next) = waiting.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    waiting.push(path);
                } else {
                    found.push(path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        found
    }

    /// A miss stores, a hit reads, what has expired is stored anew, and what is locked is left alone.
    #[test]
    fn a_request_does_what_section_2_3_1_says() {
        let dir = tempfile::tempdir().unwrap();
        let (cern, mut into) = (Cern::beneath(dir.path(), Lists::Cut), Vec::new());
        let mut ask = |url: &str, now| cern.request(url, now, b"body", 100, &mut into).unwrap();
        let url = "http://a.test/x/y.gif";
        assert_eq!([ask(url, 0), ask(url, 99), ask(url, 100)], [Served::Stored, Served::Hit(4), Served::Stored]);
        assert_eq!(ask("http://a.test/x/", 0), Served::Stored);
        assert_eq!(ask("http://a.test/x", 0), Served::Stored, "beside a directory of that name");
        assert_eq!(
            files(dir.path()),
            [",metadata", "x,object", "x/,index,object", "x/,metadata", "x/y.gif,object"]
                .map(|path| format!("http/a.test/{path}"))
        );
        fs::write(dir.path().join("http/a.test/x/y.gif,lock"), "").unwrap();
        assert_eq!(ask(url, 0), Served::Locked);
        fs::remove_file(dir.path().join("http/a.test/x/y.gif,object")).unwrap();
        fs::remove_file(dir.path().join("http/a.test/x/y.gif,lock")).unwrap();
        assert_eq!([ask(url, 0), ask(url, 0)], [Served::Stored, Served::Hit(4)], "whose file somebody removed");
    }

    proptest! {
        /// Whatever a URL says, it stays beneath the root, and two of them share no object.
        #[test]
        fn no_url_leads_out(urls in prop::collection::hash_set("(http://)?([a-c./%,\u{0}é]{0,6}/?){0,4}", 1..12)) {
            let outer = tempfile::tempdir().unwrap();
            let root = outer.path().join("root");
            fs::create_dir(&root).unwrap();
            let (cern, mut into) = (Cern::beneath(&root, Lists::InPlace), Vec::new());
            for url in &urls {
                let stored = cern.request(url, 0, url.as_bytes(), 1, &mut into).unwrap();
                prop_assert_eq!(stored, Served::Stored, "{}", url);
            }
            for url in &urls {
                let hit = cern.request(url, 0, b"", 1, &mut into).unwrap();
                prop_assert_eq!((hit, &into[..]), (Served::Hit(url.len() as u64), url.as_bytes()));
            }
            prop_assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn an_object_lies_with_its_first_page() {
        let mut urls = Urls::default();
        let mut url = |object, referer| urls.url(&Request { object, referer, ..request(object, 1) });
        assert_eq!(url(1, None), "http://host-0.test/0/1");
        for page in 2..18 {
            url(page, None);
        }
        assert_eq!(url(17, None), "http://host-0.test/1/11", "the 17th page");
        assert_eq!(url(99, Some(17)), "http://host-0.test/1/63");
        assert_eq!(url(99, Some(1)), "http://host-0.test/1/63", "wherever it is asked for later");
    }

    #[test]
    fn long_names_have_room() {
        let dir = tempfile::tempdir().unwrap();
        let (cern, mut into) = (Cern::beneath(dir.path(), Lists::Cut), Vec::new());
        let long = |last: char| format!("http://a.test/{}{last}", "x".repeat(3000));
        for last in ['a', 'b'] {
            assert_eq!(cern.request(&long(last), 0, b"", 1, &mut into).unwrap(), Served::Stored);
        }
        assert_eq!(cern.request(&long('a'), 0, b"", 1, &mut into).unwrap(), Served::Hit(0));
    }
}
