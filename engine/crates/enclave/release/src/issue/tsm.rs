//! TDX and SEV-SNP: reports by the kernel's configfs-tsm (Linux,
//! Documentation/ABI/testing/configfs-tsm-report).
//!
//! A report is made in a folder: what is written to `inblob` is signed into `outblob`; `generation`
//! counts the writes, so that a report that another writer's data got into shows. `auxblob` holds
//! the certificates that a SEV-SNP host gives.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use coffer_protocol::{EvidenceError, EvidenceKind};

use crate::{
    Issuer,
    issue::{field, not_made},
};

/// The machine's configfs-tsm.
pub(super) struct Tsm {
    kind: EvidenceKind,
    folder: PathBuf,
}

impl Tsm {
    pub(super) fn open(kind: EvidenceKind, folder: &Path) -> Result<Self, EvidenceError> {
        match provider(folder) {
            Some(found) if found == kind => Ok(Self {
                kind,
                folder: folder.to_path_buf(),
            }),
            Some(other) => Err(not_made(
                kind,
                format!("this machine's evidence is {other}"),
            )),
            None => Err(not_made(
                kind,
                format!("{} makes no reports", folder.display()),
            )),
        }
    }
}

impl Issuer for Tsm {
    fn kind(&self) -> EvidenceKind {
        self.kind
    }

    fn report(&self, report_data: &[u8; 32]) -> Result<Vec<u8>, EvidenceError> {
        Folder::make(&self.folder)
            .and_then(|entry| report(&entry, self.kind, report_data))
            .map_err(|error| not_made(self.kind, error.to_string()))
    }
}

/// What makes reports here, if anything does.
pub(super) fn provider(folder: &Path) -> Option<EvidenceKind> {
    kind_of(&Folder::make(folder).ok()?.read("provider").ok()?)
}

fn kind_of(provider: &[u8]) -> Option<EvidenceKind> {
    match provider.trim_ascii() {
        b"tdx_guest" => Some(EvidenceKind::Tdx),
        b"sev_guest" => Some(EvidenceKind::SevSnp),
        _ => None,
    }
}

/// One report's files.
trait Entry {
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
}

fn report(entry: &impl Entry, kind: EvidenceKind, report_data: &[u8; 32]) -> io::Result<Vec<u8>> {
    let generation = || -> io::Result<u64> {
        let text = String::from_utf8(entry.read("generation")?).unwrap_or_default();
        text.trim()
            .parse()
            .map_err(|_| io::Error::other("generation is no number"))
    };
    if kind_of(&entry.read("provider")?) != Some(kind) {
        return Err(io::Error::other("another provider makes reports now"));
    }
    let before = generation()?;
    entry.write("inblob", &field(report_data))?;
    let mut report = entry.read("outblob")?;
    if report.is_empty() {
        return Err(io::Error::other("the report is empty"));
    }
    // A host need not give certificates: the owner may have them.
    if kind == EvidenceKind::SevSnp {
        report.extend(entry.read("auxblob").unwrap_or_default());
    }
    if generation()? != before.wrapping_add(1) {
        return Err(io::Error::other("somebody else wrote to this report"));
    }
    Ok(report)
}

/// A folder of configfs, which is removed again.
struct Folder(PathBuf);

impl Folder {
    fn make(parent: &Path) -> io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("coffer-{}-{number}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Entry for Folder {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(name))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // In one piece: each write is one to the kernel.
        fs::write(self.0.join(name), bytes)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // configfs removes what it put in; a folder that stays costs the kernel little.
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// What the kernel does with one report.
    struct Kernel {
        provider: &'static str,
        generation: Cell<u64>,
        inblob: RefCell<Vec<u8>>,
        certificates: Option<&'static [u8]>,
        /// Another process's writes after ours.
        others: u64,
    }

    fn kernel(provider: &'static str) -> Kernel {
        Kernel {
            provider,
            generation: Cell::new(4),
            inblob: RefCell::default(),
            certificates: None,
            others: 0,
        }
    }

    impl Entry for Kernel {
        fn read(&self, name: &str) -> io::Result<Vec<u8>> {
            match name {
                "provider" => Ok(format!("{}\n", self.provider).into_bytes()),
                "generation" => Ok(format!("{}\n", self.generation.get()).into_bytes()),
                "outblob" if self.inblob.borrow().is_empty() => {
                    Err(io::ErrorKind::InvalidInput.into())
                }
                "outblob" => Ok([b"report:".as_slice(), &self.inblob.borrow()].concat()),
                "auxblob" => self
                    .certificates
                    .map(<[u8]>::to_vec)
                    .ok_or(io::ErrorKind::NotFound.into()),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        }

        fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
            if name != "inblob" || bytes.len() > 64 {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            *self.inblob.borrow_mut() = bytes.to_vec();
            self.generation.set(self.generation.get() + 1 + self.others);
            Ok(())
        }
    }

    #[test]
    fn the_report_is_over_the_whole_field() {
        let bound = [[7; 32], [0; 32]].concat();
        let expected = [b"report:".as_slice(), &bound].concat();
        assert_eq!(
            report(&kernel("tdx_guest"), EvidenceKind::Tdx, &[7; 32]).unwrap(),
            expected
        );
        assert_eq!(
            report(&kernel("sev_guest"), EvidenceKind::SevSnp, &[7; 32]).unwrap(),
            expected
        );
        let with = Kernel {
            certificates: Some(b"table"),
            ..kernel("sev_guest")
        };
        let both = [expected.as_slice(), b"table"].concat();
        assert_eq!(report(&with, EvidenceKind::SevSnp, &[7; 32]).unwrap(), both);
    }

    #[test]
    fn a_report_with_anothers_data_is_not_used() {
        let shared = Kernel {
            others: 1,
            ..kernel("tdx_guest")
        };
        assert!(report(&shared, EvidenceKind::Tdx, &[7; 32]).is_err());
        assert!(report(&kernel("sev_guest"), EvidenceKind::Tdx, &[7; 32]).is_err());
        assert!(report(&kernel("arm_cca_guest"), EvidenceKind::Tdx, &[7; 32]).is_err());
    }

    #[test]
    fn folders_are_made_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(parent.path()).unwrap();
        assert!(folder.0.is_dir());
        assert!(provider(parent.path()).is_none());
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
