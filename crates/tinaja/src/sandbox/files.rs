//! Which files a server may use, and Landlock, which has the kernel refuse all others.
//!
//! Files are replaced by renaming others over them: certificates, lists, logs, `/etc/resolv.conf`. A rule holds for a file and not for its
//! name, so it is the directories of the files that are allowed, with all that is in them: those where the files are named, and those where
//! they are.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, make_bitflags, path_beneath_rules,
};

use crate::settings::Settings;

/// What is asked of the kernel: that of Linux 6.10, and no signals to other processes (6.12). Older ones do a part of it: without the
/// second version, nothing may be moved between directories; without the third, files elsewhere can be cut short.
const KERNEL: ABI = ABI::V5;

/// What the system's libraries read, now and then: how to find name servers, whom to trust, time zones, and modules of the resolver,
/// which are loaded when they are needed.
const SYSTEM: [&str; 13] = [
    "/etc",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/connman",
    "/sys/fs/cgroup",
];

/// What the kernel says of this process, of memory and of its settings. Of other processes it would tell root the environment, with
/// whatever secrets are there.
const KERNELS: [&str; 3] = ["/proc/self", "/proc/meminfo", "/proc/sys"];

/// Variables that name the authorities that are trusted.
const TRUSTED: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Directories and single files, by what may be done there.
#[derive(Debug, Default)]
pub struct Files {
    /// The cache's.
    written: Vec<PathBuf>,
    /// Where logs are: files may be made there, and written.
    logged: Vec<PathBuf>,
    read: Vec<PathBuf>,
    /// [`KERNELS`], kept open: what nobody uses the kernel forgets and makes anew, and a rule would not hold for that.
    _held: Vec<File>,
}

impl Files {
    /// Those that the settings name, and the system's.
    pub fn of(settings: &Settings) -> Files {
        let mut files = Files::default();
        files.written.extend(settings.cache.iter().chain(&settings.positions_dir).map(|path| real(path)));
        for log in settings.proxy.access_log.iter().chain(&settings.log_to.file) {
            match log.metadata() {
                // A pipe, a terminal, or whatever /dev/stdout is: it is not replaced, and what is beside it in /dev is none of ours.
                Ok(there) if !there.is_file() || log.starts_with("/dev") => files.logged.push(real(log)),
                _ => files.logged.extend(dirs(log)),
            }
        }
        let trusted = TRUSTED.iter().filter_map(env::var_os).map(PathBuf::from);
        let authority = settings.proxy.listeners.iter().filter_map(|listener| listener.interception.authority.clone());
        for path in settings.named.iter().cloned().chain(trusted).chain(authority) {
            files.read.extend(dirs(&path));
            if path.is_dir() {
                files.read.push(real(&path));
            }
        }
        files.read.extend(dirs(Path::new("/etc/resolv.conf")));
        files.read.extend(SYSTEM.iter().chain(&KERNELS).map(PathBuf::from));
        files._held.extend(KERNELS.iter().filter_map(|path| File::open(path).ok()));
        files
    }

    /// Whether this file may be read, if there is one.
    pub fn may_be_read(&self, path: &Path) -> bool {
        let path = real(path);
        self.read.iter().chain(&self.written).any(|allowed| path.starts_with(allowed))
    }

    /// From now on this thread, and those that it will start, may do no more than that.
    ///
    /// Errors: what the kernel says, or that it knows nothing of it.
    pub fn restrict(&self) -> Result<()> {
        let whole = AccessFs::from_all(KERNEL) & !make_bitflags!(AccessFs::{Execute | MakeChar | MakeBlock});
        let logs = make_bitflags!(AccessFs::{WriteFile | MakeReg});
        let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        let rules = |paths: &[PathBuf], access: BitFlags<AccessFs>| path_beneath_rules(paths.to_vec(), access);
        let status = Ruleset::default()
            .handle_access(AccessFs::from_all(KERNEL))?
            .scope(Scope::Signal)?
            .create()?
            .add_rules(rules(&self.written, whole))?
            .add_rules(rules(&self.logged, logs))?
            .add_rules(rules(&self.read, read))?
            .add_rules(path_beneath_rules(["/dev/null"], read | AccessFs::WriteFile))?
            .restrict_self()?;
        match status.ruleset {
            RulesetStatus::NotEnforced => bail!("it has no Landlock"),
            RulesetStatus::PartiallyEnforced => {
                tracing::info!("the sandbox is as tight as this kernel has it; since Linux 6.12 it is tighter");
                Ok(())
            }
            RulesetStatus::FullyEnforced => Ok(()),
        }
    }
}

/// Whether the kernel has Landlock. Errors: it does not, with what to do.
pub fn possible() -> Result<()> {
    let asked =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::from_all(ABI::V1));
    match asked.and_then(Ruleset::create) {
        Ok(_) => Ok(()),
        Err(error) => bail!(
            "sandbox: this kernel has no Landlock (Linux 5.13 or later, with landlock in /sys/kernel/security/lsm), or does not let this process \
             use it: set sandbox = false to serve without: {error}"
        ),
    }
}

/// The directories in which a file is: where it is named, and where it is. The root is none: it would be everything; then it is the file.
fn dirs(path: &Path) -> Vec<PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(dir) if dir.as_os_str().is_empty() => PathBuf::from("."),
        Some(dir) => dir.to_owned(),
        None => path.to_owned(),
    };
    let mut dirs: Vec<PathBuf> = [parent(path), parent(&real(path))].iter().map(|dir| real(dir)).collect();
    for dir in &mut dirs {
        if dir.parent().is_none() {
            *dir = real(path);
        }
    }
    dirs.dedup();
    dirs
}

/// A path as the system knows it, without links; one that is not there, in its directory if that is.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) => dir.canonicalize().map_or_else(|_| path.to_owned(), |dir| dir.join(name)),
        _ => path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_where_it_is_named_and_where_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        let (live, archive) = (home.join("live"), home.join("archive"));
        for dir in [&live, &archive] {
            fs::create_dir(dir).unwrap();
        }
        fs::write(archive.join("1.pem"), "").unwrap();
        symlink("../archive/1.pem", live.join("cert.pem")).unwrap();
        assert_eq!(dirs(&live.join("cert.pem")), [live.clone(), archive.clone()]);
        assert_eq!(dirs(&archive.join("1.pem")), std::slice::from_ref(&archive));
        assert_eq!(dirs(&archive.join("none.pem")), std::slice::from_ref(&archive));
        // Not the whole machine, for a file that somebody keeps there.
        assert_eq!(dirs(Path::new("/tinaja.toml")), [PathBuf::from("/tinaja.toml")]);
        let files = Files { read: dirs(&live.join("cert.pem")), ..Files::default() };
        for (path, expected) in [
            (live.join("cert.pem"), true),
            (live.join("other.pem"), true),
            (archive.join("2.pem"), true),
            (home.join("2.pem"), false),
            (live.join("../2.pem"), false),
            (home.join("livelier"), false),
        ] {
            assert_eq!(files.may_be_read(&path), expected, "{}", path.display());
        }
    }
}
