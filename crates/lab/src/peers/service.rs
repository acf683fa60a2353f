//! Names for Squids that no other ones on this machine have.
//!
//! Squid's shared memory is named by its service, "squid" if it is told no other, also where it serves alone and shares nothing. Of two that
//! start at once under one name, one can find that what it has just removed is there again, and ends: about three times of fifteen with eight at once.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Where the shared memory of processes is.
const SHARED: &str = "/dev/shm";

/// See the module. Dropped, what Squids of these names have left is removed: one that is killed removes nothing. Where this
/// program is killed too, it stays there: three small files for each.
pub struct ServiceNames(String);

impl ServiceNames {
    /// Some that are in use nowhere.
    pub fn new() -> ServiceNames {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Squid takes letters and digits alone.
        ServiceNames(format!("tinaja{}x{}n", std::process::id(), NEXT.fetch_add(1, Relaxed)))
    }

    /// The arguments that give a Squid one of them.
    pub fn arguments(&self, n: u8) -> [String; 2] {
        ["-n".to_owned(), format!("{}{n}", self.0)]
    }
}

impl Drop for ServiceNames {
    fn drop(&mut self) {
        let shared = fs::read_dir(SHARED).into_iter().flatten().filter_map(Result::ok);
        for left in shared.filter(|file| file.file_name().to_string_lossy().starts_with(&self.0)) {
            // Nobody needs it: that it cannot be removed hinders nothing here.
            let _ = fs::remove_file(left.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_has_its_own_and_leaves_nothing() {
        let (one, other) = (ServiceNames::new(), ServiceNames::new());
        assert!(one.0 != other.0 && one.arguments(0)[1].chars().all(|c| c.is_ascii_alphanumeric()), "{}", one.0);
        let left = |names: &ServiceNames| Path::new(SHARED).join(format!("{}-cf__queues.shm", names.arguments(12)[1]));
        let (of_one, of_other) = (left(&one), left(&other));
        for file in [&of_one, &of_other] {
            fs::write(file, "left").unwrap();
        }
        drop(one);
        assert!(!of_one.exists() && of_other.exists());
        drop(other);
        assert!(!of_other.exists());
    }
}
