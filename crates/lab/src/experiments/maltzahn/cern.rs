//! CERN's layout (section 2.3.1), as the paper's workload generator mimics it: a directory for each component of a URL, a metadata file in it
//! that lists what may be served, a lock file while an object is written, and nothing in memory from one request to the next.
//!
//! Directories, lists and locks are those of the engine `cern`, by its own code. What is not here is what the engine does besides: its table of
//! files in memory, checksums of objects, and removals that last. An experiment that measures both shows what the table is worth.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tinaja_store::device::tree::{Call, RealTree, Tree};
use tinaja_store::engine::trees::lists::{LIST, Listed, Lists};
use tinaja_store::engine::trees::urls::Address;

use crate::load::Request;

/// What follows an object's name in that of its file, which is no directory's then. The engine has a number of its own for each version there.
const OBJECT: &str = ",object";
/// Of the lists' checksums.
const SEED: u64 = 7;

/// What was done about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It was there, and was read.
    Hit,
    /// It was not, and is now.
    Stored,
    /// Another process writes it: it is fetched, and the cache stays as it is.
    Locked,
}

/// A cache. Each request does what a process of its own would.
pub struct Cern {
    tree: Box<dyn Tree>,
    lists: Lists,
}

/// How a metadata file is written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Cut to nothing first, as programs do that open a file to write it.
    Cut,
    /// In place, as the engine does.
    InPlace,
}

impl Cern {
    /// Beneath a directory that is there. Errors: the system's.
    pub fn beneath(root: &Path, written: Written) -> io::Result<Cern> {
        let tree = RealTree::open(root)?;
        let tree: Box<dyn Tree> = match written {
            Written::InPlace => Box::new(tree),
            Written::Cut => Box::new(Cutting { tree, root: root.to_path_buf() }),
        };
        Ok(Cern { tree, lists: Lists::new(SEED) })
    }

    /// One request, at a time in seconds: fill `into` with the object if it is there and has not expired, else store `body` until `expires`.
    /// Errors: the system's; of the kind `UnexpectedEof`, that the object is shorter than `into`.
    pub fn request(&self, url: &str, now: u64, body: &[u8], expires: u64, into: &mut [u8]) -> io::Result<Served> {
        let Address { directory, name } = Address::of_url(url);
        let (tree, name) = (&*self.tree, format!("{name}{OBJECT}"));
        let path = &*format!("{directory}/{name}");
        if self.lists.is_locked(tree, path)? {
            return Ok(Served::Locked);
        }
        let is_fresh = match self.lists.read(tree, &directory)? {
            Listed::Whole(listed) => listed.get(&name).is_some_and(|until| *until > now),
            Listed::Absent | Listed::Damaged => false,
        };
        if is_fresh {
            match tree.call(Call::Read { path, at: 0, into }) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                read => return read.map(|()| Served::Hit),
            }
        }
        self.lists.write(tree, path, 0, body, true)?;
        self.lists.enter(tree, path, expires, BTreeMap::new)?;
        Ok(Served::Stored)
    }

    /// Have all of it go to the disk. Errors: the system's.
    pub fn sync(&self) -> io::Result<()> {
        self.tree.call(Call::Sync)
    }
}

/// Files whose lists are cut to nothing before they are written.
struct Cutting {
    tree: RealTree,
    root: PathBuf,
}

impl Tree for Cutting {
    fn call(&self, call: Call<'_>) -> io::Result<()> {
        let is_list = |path: &str| path.rsplit_once('/').is_some_and(|(_, name)| name == LIST);
        // Open until it is written: of a file that was cut and closed before, ext4 would not write the new bytes at once.
        let _cut = match &call {
            Call::Write { path, .. } if is_list(path) => Some(File::create(self.root.join(path))?),
            _ => None,
        };
        self.tree.call(call)
    }

    fn list(&self, each: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        self.tree.list(each)
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

#[cfg(test)]
mod tests {
    use std::fs;

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
        for written in [Written::Cut, Written::InPlace] {
            does_what_section_2_3_1_says(written);
        }
    }

    fn does_what_section_2_3_1_says(written: Written) {
        let dir = tempfile::tempdir().unwrap();
        let (cern, mut into) = (Cern::beneath(dir.path(), written).unwrap(), [0; 4]);
        let mut ask = |url: &str, now| cern.request(url, now, b"body", 100, &mut into).unwrap();
        let url = "http://a.test/x/y.gif";
        assert_eq!([ask(url, 0), ask(url, 99), ask(url, 100)], [Served::Stored, Served::Hit, Served::Stored]);
        assert_eq!(ask("http://a.test/x/", 0), Served::Stored);
        assert_eq!(ask("http://a.test/x", 0), Served::Stored, "beside a directory of that name");
        assert_eq!(
            files(dir.path()),
            [",metadata", "x,object", "x/,index,object", "x/,metadata", "x/y.gif,object"]
                .map(|path| format!("http/a.test/{path}"))
        );
        fs::write(dir.path().join("http/a.test/x/y.gif,object,lock"), "").unwrap();
        assert_eq!(ask(url, 0), Served::Locked);
        fs::remove_file(dir.path().join("http/a.test/x/y.gif,object")).unwrap();
        fs::remove_file(dir.path().join("http/a.test/x/y.gif,object,lock")).unwrap();
        assert_eq!([ask(url, 0), ask(url, 0)], [Served::Stored, Served::Hit], "whose file somebody removed");
    }

    proptest! {
        /// Whatever a URL says, it stays beneath the root, and two of them share no object.
        #[test]
        fn no_url_leads_out(urls in prop::collection::hash_set("(http://)?([a-c./%,\u{0}é]{0,6}/?){0,4}", 1..12)) {
            let outer = tempfile::tempdir().unwrap();
            let root = outer.path().join("root");
            fs::create_dir(&root).unwrap();
            let cern = Cern::beneath(&root, Written::InPlace).unwrap();
            for url in &urls {
                let stored = cern.request(url, 0, url.as_bytes(), 1, &mut []).unwrap();
                prop_assert_eq!(stored, Served::Stored, "{}", url);
            }
            for url in &urls {
                let mut into = vec![0; url.len()];
                let hit = cern.request(url, 0, b"", 1, &mut into).unwrap();
                prop_assert_eq!((hit, &into[..]), (Served::Hit, url.as_bytes()));
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
        let cern = Cern::beneath(dir.path(), Written::Cut).unwrap();
        let long = |last: char| format!("http://a.test/{}{last}", "x".repeat(3000));
        for last in ['a', 'b'] {
            assert_eq!(cern.request(&long(last), 0, b"", 1, &mut []).unwrap(), Served::Stored);
        }
        assert_eq!(cern.request(&long('a'), 0, b"", 1, &mut []).unwrap(), Served::Hit);
    }
}
