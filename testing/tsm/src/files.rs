//! The file system: a folder that is made is one report, with the files that the kernel puts in.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io::{self, Read, Write},
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use socket2::{Domain, SockAddr, Socket, Type};

/// The host, and where its launcher gives reports: 64 bytes for a report and its certificates.
const LAUNCHER: (u32, u32) = (2, 7079);
const FIELD: usize = 64;
/// SEV-SNP's report; the certificates come behind it.
const REPORT: usize = 1184;
const FILES: [&str; 5] = ["provider", "generation", "inblob", "outblob", "auxblob"];
/// Inodes of one report: its folder and its files.
const EACH: u64 = 16;
const NOT_KEPT: Duration = Duration::ZERO;

#[derive(Default)]
struct Reports(Mutex<State>);

#[derive(Default)]
struct State {
    made: u64,
    folders: HashMap<u64, Report>,
}

#[derive(Default)]
struct Report {
    name: String,
    generation: u64,
    /// The report and what came behind it, once there is something to report on.
    made: Option<(Vec<u8>, Vec<u8>)>,
}

/// Serves until it is unmounted.
pub(crate) fn serve(at: &Path) -> io::Result<()> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("tsm".to_owned())];
    fuser::mount(Reports::default(), at, &config)
}

fn ask(inblob: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut socket = Socket::new(Domain::VSOCK, Type::STREAM, None)?;
    socket.connect(&SockAddr::vsock(LAUNCHER.0, LAUNCHER.1))?;
    socket.write_all(inblob)?;
    let mut report = Vec::new();
    socket.read_to_end(&mut report)?;
    let certificates = report.split_off(REPORT.min(report.len()));
    Ok((report, certificates))
}

impl Report {
    fn read(&self, file: &str) -> Result<Vec<u8>, Errno> {
        match file {
            "provider" => Ok(b"sev_guest\n".to_vec()),
            "generation" => Ok(format!("{}\n", self.generation).into_bytes()),
            "outblob" => self
                .made
                .as_ref()
                .map(|(report, _)| report.clone())
                .ok_or(Errno::EINVAL),
            "auxblob" => self
                .made
                .as_ref()
                .map(|(_, more)| more.clone())
                .ok_or(Errno::EINVAL),
            _ => Err(Errno::EPERM),
        }
    }
}

fn attributes(inode: u64) -> FileAttr {
    let (kind, perm) = match inode % EACH {
        0 | 1 if inode < EACH || inode.is_multiple_of(EACH) => (FileType::Directory, 0o755),
        _ => (FileType::RegularFile, 0o600),
    };
    FileAttr {
        ino: INodeNo(inode),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        flags: 0,
        blksize: 4096,
    }
}

fn file(inode: u64) -> Option<&'static str> {
    let at = usize::try_from(inode % EACH).ok()?.checked_sub(1)?;
    FILES.get(at).copied()
}

impl Filesystem for Reports {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.0.lock();
        let parent = u64::from(parent);
        let found = if parent == u64::from(INodeNo::ROOT) {
            let mut folders = state.folders.iter();
            folders.find_map(|(inode, report)| (name == report.name.as_str()).then_some(*inode))
        } else {
            let at = FILES.iter().position(|file| name == *file);
            at.and_then(|at| u64::try_from(at + 1).ok())
                .filter(|_| state.folders.contains_key(&parent))
                .map(|at| parent + at)
        };
        match found {
            Some(inode) => reply.entry(&NOT_KEPT, &attributes(inode), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&NOT_KEPT, &attributes(u64::from(inode)));
    }

    /// A write begins with a cut to no bytes, which the kernel's files take no notice of.
    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&NOT_KEPT, &attributes(u64::from(inode)));
    }

    fn mkdir(&self, _: &Request, _: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let mut state = self.0.lock();
        state.made += 1;
        let inode = state.made * EACH;
        let name = name.to_string_lossy().into_owned();
        let report = Report {
            name,
            ..Report::default()
        };
        state.folders.insert(inode, report);
        reply.entry(&NOT_KEPT, &attributes(inode), Generation(0));
    }

    fn rmdir(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.0.lock();
        state
            .folders
            .retain(|_, report| name != report.name.as_str());
        reply.ok();
    }

    /// The kernel's files have no length, so what they hold is not kept by length either.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let inode = u64::from(inode);
        let state = self.0.lock();
        let report = state.folders.get(&(inode - inode % EACH));
        let content = report
            .zip(file(inode))
            .ok_or(Errno::ENOENT)
            .and_then(|(report, file)| report.read(file));
        match content {
            Ok(content) => {
                let from = usize::try_from(offset)
                    .unwrap_or(usize::MAX)
                    .min(content.len());
                let rest = content.get(from..).unwrap_or_default();
                let most = usize::try_from(size).unwrap_or(usize::MAX).min(rest.len());
                reply.data(rest.get(..most).unwrap_or_default());
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let inode = u64::from(inode);
        let mut state = self.0.lock();
        let report = state.folders.get_mut(&(inode - inode % EACH));
        match (report, file(inode)) {
            (Some(report), Some("inblob")) if data.len() == FIELD => match ask(data) {
                Ok(made) => {
                    report.made = Some(made);
                    report.generation += 1;
                    reply.written(u32::try_from(data.len()).unwrap_or_default());
                }
                Err(_) => reply.error(Errno::EIO),
            },
            _ => reply.error(Errno::EINVAL),
        }
    }
}
