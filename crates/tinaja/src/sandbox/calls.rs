//! System calls that a cache never makes, and seccomp, which has the kernel refuse them.
//!
//! It is a list of what is refused. A list of what is allowed would be tighter, and would have to follow every C library, resolver and
//! kernel: a call that a library makes since its last version would stop a cache in the middle of a day. (The systemd unit has such a list,
//! `@system-service`, which systemd's authors keep up.) What is refused fails with EPERM instead of ending the process, for the same reason.
//!
//! It does not see what io_uring is asked for: that knows none of these calls, and opens no file that Landlock refuses.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use anyhow::{Result, anyhow};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};

/// What no process of a cache does, whatever its arguments.
const REFUSED: &[i64] = &[
    // Other programs, and other processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // The kernel itself.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_fanotify_init,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    // Keys, users and privileges.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_personality,
    // The machine's clock and names, and devices.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_mknodat,
];

/// Those that only this processor has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_mknod,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Most calls have a second number on x86-64, with this bit, where the kernel runs programs for x32 (its own ones are 512 to 547).
const X32_BIT: i64 = 0x4000_0000;

/// The kinds of sockets that a cache has: local ones, IPv4, IPv6, and the kernel's, which say which addresses there are.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// From now on all threads are refused these calls.
///
/// Errors: what the kernel says.
pub fn restrict() -> Result<()> {
    for filter in filters()? {
        apply_filter_all_threads(&filter)?;
    }
    Ok(())
}

/// Whether there is a filter for this processor, and the kernel knows of filters. Errors: one of both is not.
pub fn possible() -> Result<()> {
    filters()?;
    match std::path::Path::new("/proc/sys/kernel/seccomp/actions_avail").exists() {
        true => Ok(()),
        false => Err(anyhow!("sandbox: this kernel filters no system calls: set sandbox = false to serve without")),
    }
}

fn filters() -> Result<[BpfProgram; 2]> {
    let arch = || {
        TargetArch::try_from(ARCH)
            .map_err(|_| anyhow!("sandbox: there is no filter of system calls for {ARCH}: set sandbox = false"))
    };
    let filter = |rules, errno: i32| -> Result<BpfProgram> {
        let refused = SeccompAction::Errno(errno.unsigned_abs());
        Ok(SeccompFilter::new(rules, SeccompAction::Allow, refused, arch()?)?.try_into()?)
    };
    // Its arguments cannot be looked at. Who is told that there is none takes clone, as with kernels before 5.3.
    let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok([filter(rules()?, libc::EPERM)?, filter(newer, libc::ENOSYS)?])
}

/// What is refused, each call with the arguments that are; without any, always.
fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules = BTreeMap::new();
    for call in REFUSED.iter().chain(REFUSED_HERE) {
        rules.insert(*call, Vec::new());
        if cfg!(target_arch = "x86_64") {
            rules.insert(*call | X32_BIT, Vec::new());
        }
    }
    if cfg!(target_arch = "x86_64") {
        rules.extend((512..548).chain([libc::SYS_clone, libc::SYS_clone3]).map(|call| (call | X32_BIT, Vec::new())));
    }
    let bits = |bits: i32, value: i32| {
        let (bits, value) = (u64::from(bits.cast_unsigned()), u64::from(value.cast_unsigned()));
        condition(0, SeccompCmpOp::MaskedEq(bits), value)
    };
    // Threads, but no processes, and no namespaces.
    let mut clone = vec![SeccompRule::new(vec![bits(libc::CLONE_THREAD, 0)?])?];
    for space in [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ] {
        clone.push(SeccompRule::new(vec![bits(space, space)?])?);
    }
    rules.insert(libc::SYS_clone, clone);
    let other = FAMILIES.map(|family| condition(0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())));
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(other.into_iter().collect::<Result<_>>()?)?]);
    Ok(rules)
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpListener;
    use std::process::Command;
    use std::thread;

    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    /// In a thread of its own: a filter cannot be taken off. It is put on this thread alone, for the sake of other tests.
    #[test]
    fn what_is_refused() {
        let tried = thread::spawn(|| {
            assert!(Command::new("true").status().unwrap().success());
            for filter in filters().unwrap() {
                seccompiler::apply_filter(&filter).unwrap();
            }
            assert_eq!(Command::new("true").status().unwrap_err().kind(), ErrorKind::PermissionDenied);
            for (family, allowed) in [
                (AddressFamily::INET, true),
                (AddressFamily::UNIX, true),
                (AddressFamily::PACKET, false),
                (AddressFamily::VSOCK, false),
            ] {
                let made = socket(family, SocketType::DGRAM, None);
                assert_eq!(made.is_err_and(|error| error == Errno::PERM), !allowed, "{family:?}");
            }
            assert_eq!(rustix::system::sethostname(b"x"), Err(Errno::PERM));
            assert_eq!(rustix::process::chroot("/"), Err(Errno::PERM));
            // What a cache does.
            thread::spawn(|| drop(TcpListener::bind("127.0.0.1:0").unwrap())).join().unwrap();
        });
        tried.join().unwrap();
    }

    #[test]
    fn this_machine_has_filters() {
        possible().unwrap();
    }
}
