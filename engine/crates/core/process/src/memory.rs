//! What keeps the memory of a process with keys out of files and other processes: no core dumps, no
//! ptrace, and no swap where the system lets memory be locked. For every program of Coffer, first
//! thing in `main`.
//!
//! This binds an honest system, so it protects the client site: a crash report, a debugger of the
//! same user, a swap partition on a stolen disk. A hostile root reads memory as it likes where no
//! TEE stops it; see `SECURITY.md`.

use std::{fmt, io};

use capctl::{
    caps::{Cap, CapState},
    prctl::set_dumpable,
};
use rlimit::{INFINITY, Resource};

/// Whether the process's memory is locked, so that none of it is ever swapped out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Locked {
    /// All of it, now and later.
    All,
    /// The system allows so many bytes only. To lock some of a growing process would end it at the
    /// limit, so none is.
    Limited(u64),
    /// The system refused, and why.
    Refused(String),
}

impl fmt::Display for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("memory is locked: none of it is swapped out"),
            Self::Limited(bytes) => write!(
                f,
                "memory is not locked and may be swapped out: the limit is {bytes} bytes \
                 (raise it with `ulimit -l unlimited` or LimitMEMLOCK=infinity, or switch swap off)"
            ),
            Self::Refused(why) => write!(f, "memory is not locked and may be swapped out: {why}"),
        }
    }
}

/// Turns core dumps off and lets no process of the same user attach. Before any key exists.
///
/// # Errors
/// The system's, which should not happen: both are always allowed.
pub fn forbid_core_dumps() -> io::Result<()> {
    Resource::CORE.set(0, 0)?;
    // A process that is not dumpable is not ptraced either, and its files in /proc belong to root.
    set_dumpable(false)?;
    Ok(())
}

/// Locks all memory, that of later allocations included, if there is no limit on it. Pages are
/// locked as they are first touched: what is reserved and not used costs nothing.
#[must_use]
pub fn lock_memory() -> Locked {
    let (soft, hard) = Resource::MEMLOCK.get().unwrap_or((0, 0));
    let unlimited =
        soft == INFINITY || (hard == INFINITY && Resource::MEMLOCK.set(INFINITY, INFINITY).is_ok());
    let capable = || CapState::get_current().is_ok_and(|caps| caps.effective.has(Cap::IPC_LOCK));
    if !unlimited && !capable() {
        return Locked::Limited(soft);
    }
    // SAFETY: takes flags, touches no memory of ours. The crates that wrap it bring features of
    // libc that would have all of DataFusion built anew, and more code than this.
    #[allow(unsafe_code)]
    let done = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    match done {
        0 => Locked::All,
        _ => Locked::Refused(io::Error::last_os_error().to_string()),
    }
}

/// Has no more arenas than the machine has cores, and two at least. In an arena glibc keeps what
/// its threads have freed, for itself: with eight for each core, which is its default, an engine
/// holds 1.5 times as much after a thousand queries as after a hundred (`bench/run soak`).
/// Before the first thread. Another libc has none.
pub fn bound_arenas() {
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    #[cfg(target_env = "gnu")]
    {
        let most = libc::c_int::try_from(cores).unwrap_or(libc::c_int::MAX);
        // SAFETY: sets a number that malloc reads when it would make an arena.
        #[allow(unsafe_code)]
        let done = unsafe { libc::mallopt(libc::M_ARENA_MAX, most) };
        if done == 0 {
            tracing::debug!("malloc takes no bound of its arenas");
        }
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = cores;
}

#[cfg(test)]
mod tests {
    use std::fs;

    use capctl::prctl::get_dumpable;

    use super::*;

    #[test]
    fn core_dumps_and_ptrace_are_off_afterwards() {
        forbid_core_dumps().unwrap();
        assert_eq!(Resource::CORE.get().unwrap(), (0, 0));
        assert!(!get_dumpable().unwrap());
    }

    /// A line of one of the process's files in /proc, after its title.
    fn of_process(file: &str, title: &str) -> String {
        let text = fs::read_to_string(format!("/proc/self/{file}")).unwrap();
        text.lines()
            .find_map(|line| line.strip_prefix(title))
            .unwrap()
            .trim()
            .to_owned()
    }

    /// What the kernel says of this process, not what our own look at it comes to: no limit at all,
    /// or the capability (bit 14, `CAP_IPC_LOCK`) that lifts it.
    fn may_lock() -> bool {
        let capabilities = u64::from_str_radix(&of_process("status", "CapEff:"), 16).unwrap();
        let limits = of_process("limits", "Max locked memory");
        capabilities >> 14 & 1 == 1 || limits.split_whitespace().nth(1) == Some("unlimited")
    }

    #[test]
    fn memory_is_locked_wherever_the_kernel_allows_it() {
        let allowed = may_lock();
        let locked = lock_memory();
        let held: u64 = of_process("status", "VmLck:")
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        match (allowed, &locked) {
            (true, Locked::All) => assert!(held > 0, "it says that memory is locked, and none is"),
            (false, Locked::Limited(_)) => assert_eq!(held, 0, "{locked}"),
            _ => panic!("the kernel allows it: {allowed}; {locked}; {held} kB are locked"),
        }
        // What comes later is served as ever.
        assert_eq!(
            vec![1_u8; 64 << 20]
                .iter()
                .map(|byte| usize::from(*byte))
                .sum::<usize>(),
            64 << 20
        );
    }
}
