//! `[log]`: what must be in a transparency log before a key leaves.
//!
//! Each thing that is demanded has a proof beside the policy, `SHA256.tlog-proof` in the folder
//! `proofs`; nothing is fetched. There too lies the log's state that was seen last, in `seen`: the
//! log does not go back behind it.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use coffer_log::{Checkpoint, Entry, Included, LogError, MOST_BYTES, Proof, Trust, note::Note};
use coffer_protocol::evidence::EvidenceError;
use serde::Deserialize;

use crate::{durable, policy::PolicyError};

const SEEN: &str = "seen";

/// The section as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenLog {
    key: String,
    witnesses: Vec<String>,
    quorum: usize,
    max_age_hours: u32,
    proofs: PathBuf,
    demand: Vec<Demand>,
}

/// What must be in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Demand {
    /// The release that `[attestation.release]` pins.
    Release,
    /// The policy itself.
    Policy,
}

/// A log, and what must be in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPolicy {
    trust: Trust,
    proofs: PathBuf,
    demand: Vec<Demand>,
    release: Option<[u8; 32]>,
}

/// All that is demanded is in the log. Made by [`LogPolicy::check`] alone.
pub(crate) struct Logged(());

impl Logged {
    /// Where no log is asked for.
    pub(crate) const NOT_ASKED: Self = Self(());
}

impl LogPolicy {
    /// `release`: SHA-256 of the release that is pinned; `alone`: and no other code is accepted.
    pub(super) fn read(
        written: WrittenLog,
        folder: &Path,
        release: Option<[u8; 32]>,
        alone: bool,
    ) -> Result<Self, PolicyError> {
        let key = |text: &String| text.parse().map_err(PolicyError::Log);
        let witnesses = written.witnesses.iter().map(key);
        let trust = Trust::new(
            key(&written.key)?,
            witnesses.collect::<Result<_, _>>()?,
            written.quorum,
            Duration::from_secs(3600).saturating_mul(written.max_age_hours),
        )
        .map_err(PolicyError::Log)?;
        if written.demand.is_empty() {
            return Err(PolicyError::NothingLogged);
        }
        if written.demand.contains(&Demand::Release) && !(release.is_some() && alone) {
            return Err(PolicyError::LooseMeasurements);
        }
        Ok(Self {
            trust,
            proofs: folder.join(written.proofs),
            demand: written.demand,
            release,
        })
    }

    /// Whether the policy itself must be in it.
    pub(super) fn demands_policy(&self) -> bool {
        self.demand.contains(&Demand::Policy)
    }

    /// Whether all that is demanded is in the log, by the proofs that are there. `policy`: SHA-256
    /// of the policy's bytes.
    pub(super) fn check(&self, policy: [u8; 32], now: SystemTime) -> Result<Logged, EvidenceError> {
        let path = self.proofs.join(SEEN);
        let refused = |what: &str, error: &LogError| EvidenceError::NotLogged {
            what: what.to_owned(),
            why: error.to_string(),
        };
        let lock = durable::lock(&path).map_err(|error| refused("log", &io(&path, error)))?;
        let before = self.seen(&path).map_err(|error| refused("log", &error))?;
        let mut found: Vec<(Included, String)> = Vec::new();
        for demand in &self.demand {
            let entry = match (demand, self.release) {
                (Demand::Policy, _) => Entry::Policy(policy),
                (Demand::Release, Some(release)) => Entry::Release(release),
                (Demand::Release, None) => {
                    return Err(refused("release", &LogError::NoEntry));
                }
            };
            let checked = self.proof(&entry, now, before.as_ref());
            found.push(checked.map_err(|error| refused(entry.kind(), &error))?);
        }
        // Two states of one size are one.
        for (one, _) in &found {
            let forked = |(other, _): &&(Included, String)| {
                other.checkpoint.size == one.checkpoint.size && other.checkpoint != one.checkpoint
            };
            if found.iter().any(|other| forked(&other)) {
                return Err(refused("log", &LogError::Fork(one.checkpoint.size)));
            }
        }
        // What all proofs have reached: with proofs of unlike age the next check passes, too.
        let least = found
            .iter()
            .min_by_key(|(included, _)| included.checkpoint.size);
        if let Some((included, note)) = least
            && before.is_none_or(|before| before.size < included.checkpoint.size)
        {
            durable::replace(&path, note.as_bytes())
                .map_err(|error| refused("log", &io(&path, error)))?;
        }
        drop(lock);
        Ok(Logged(()))
    }

    fn proof(
        &self,
        entry: &Entry,
        now: SystemTime,
        before: Option<&Checkpoint>,
    ) -> Result<(Included, String), LogError> {
        let name = format!("{}.tlog-proof", hex::encode(entry.digest()));
        let path = self.proofs.join(name);
        let bytes = durable::read_at_most(&path, MOST_BYTES).map_err(|error| io(&path, error))?;
        let proof = Proof::parse(&bytes)?;
        let included = self.trust.verify(&proof, entry, now, before)?;
        Ok((included, proof.checkpoint))
    }

    /// The state that was seen last: the log signed it, so nobody else made it up.
    fn seen(&self, path: &Path) -> Result<Option<Checkpoint>, LogError> {
        let bytes = match durable::read_at_most(path, MOST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|error| io(path, error))?,
        };
        let text = String::from_utf8_lossy(&bytes);
        Checkpoint::open(&Note::parse(&text)?, self.trust.log()).map(Some)
    }
}

fn io(path: &Path, source: io::Error) -> LogError {
    LogError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use coffer_log::{
        cosign,
        keeper::Tiles,
        note::{PrivateKey, Signs},
    };
    use coffer_sealing::sha256;
    use tempfile::TempDir;

    use super::*;
    use crate::{Draft, Policy};

    const RELEASE: &str = r#"{"format": 1, "version": "0.1.0", "source":
        {"commit": "a", "tree": "b"},
        "toolchain": {}, "files": {}, "programs": {}, "measurements": {"sgx": {"mrenclave":
        "1111111111111111111111111111111111111111111111111111111111111111"}}}"#;

    struct Site {
        folder: TempDir,
        log: PrivateKey,
        witness: PrivateKey,
        tiles: Tiles,
    }

    impl Site {
        fn new() -> Self {
            let folder = TempDir::new().unwrap();
            let log = PrivateKey::generate("example.org/log", Signs::Notes).unwrap();
            fs::create_dir(folder.path().join("proofs")).unwrap();
            fs::write(folder.path().join("release.json"), RELEASE).unwrap();
            Self {
                tiles: Tiles::create(&folder.path().join("log"), &log).unwrap(),
                witness: PrivateKey::generate("w.example.org", Signs::Cosignatures).unwrap(),
                log,
                folder,
            }
        }

        fn text(&self, demand: &str, more: &str) -> String {
            let folder = self.folder.path().display();
            format!(
                "[attestation]\naccept = [\"simulated\"]\n{more}\n[log]\nkey = \"{}\"\n\
                 witnesses = [\"{}\"]\nquorum = 1\nmax_age_hours = 1\n\
                 proofs = \"{folder}/proofs\"\ndemand = {demand}\n",
                self.log.public(),
                self.witness.public(),
            )
        }

        fn pin(&self, digest: [u8; 32]) -> String {
            let file = self.folder.path().join("release.json");
            let (file, digest) = (file.display(), hex::encode(digest));
            format!("[attestation.release]\nfile = \"{file}\"\nsha256 = \"{digest}\"\n")
        }

        /// Adds entries, and writes the proofs of these.
        fn log(&self, entries: &[Entry], proved: &[Entry]) {
            self.tiles.append(&self.log, entries).unwrap();
            let now = SystemTime::now();
            let (read, signed, _) =
                cosign(&self.tiles, self.log.public(), &self.witness, None, now).unwrap();
            self.tiles.add_signature(&read, &signed).unwrap();
            for entry in proved {
                let proof = self.tiles.prove(self.log.public(), entry).unwrap();
                fs::write(self.proof(entry), proof.to_text()).unwrap();
            }
        }

        fn proof(&self, entry: &Entry) -> PathBuf {
            let name = format!("proofs/{}.tlog-proof", hex::encode(entry.digest()));
            self.folder.path().join(name)
        }
    }

    fn why(policy: &Policy, now: SystemTime) -> String {
        match policy.logged(now) {
            Err(EvidenceError::NotLogged { what, why }) => format!("{what}: {why}"),
            other => panic!("{:?}", other.map(|_| ())),
        }
    }

    #[test]
    fn a_policy_that_demands_it_must_be_in_the_log_lately() {
        let site = Site::new();
        let policy = Policy::unsigned(&site.text("[\"policy\"]", ""));
        let entry = Entry::Policy(policy.digest().as_bytes());
        let now = SystemTime::now();
        assert!(why(&policy, now).starts_with("policy: cannot use"));
        site.log(&[Entry::Policy([1; 32]), entry], &[entry]);
        policy.logged(now).unwrap();
        let late = now + Duration::from_secs(3 * 3600);
        assert!(
            why(&policy, late).contains("3 hours ago"),
            "{}",
            why(&policy, late)
        );
        // Another policy's proof under this one's name.
        let other = Entry::Policy([1; 32]);
        let proof = site.tiles.prove(site.log.public(), &other).unwrap();
        fs::write(site.proof(&entry), proof.to_text()).unwrap();
        assert!(why(&policy, now).contains("does not lead from this entry"));
        fs::write(site.proof(&entry), vec![b'a'; (64 << 10) + 1]).unwrap();
        assert!(why(&policy, now).contains("more than 65536 bytes"));
    }

    #[test]
    fn the_log_does_not_go_back_behind_what_was_seen() {
        let site = Site::new();
        let policy = Policy::unsigned(&site.text("[\"policy\"]", ""));
        let (entry, now) = (Entry::Policy(policy.digest().as_bytes()), SystemTime::now());
        site.log(&[entry], &[entry]);
        policy.logged(now).unwrap();
        let old = fs::read(site.proof(&entry)).unwrap();
        site.log(&[Entry::Policy([7; 32])], &[entry]);
        policy.logged(now).unwrap();
        fs::write(site.proof(&entry), old).unwrap();
        assert!(
            why(&policy, now).contains("had 2 before"),
            "{}",
            why(&policy, now)
        );
        // What was seen is not made up, nor emptied.
        let seen = site.folder.path().join("proofs/seen");
        for bytes in [
            String::new(),
            fs::read_to_string(&seen)
                .unwrap()
                .replacen("\n2\n", "\n1\n", 1),
        ] {
            fs::write(&seen, bytes).unwrap();
            assert!(why(&policy, now).starts_with("log: "));
        }
    }

    #[test]
    fn proofs_of_unlike_age_may_stand_side_by_side() {
        let site = Site::new();
        let pin = site.pin(sha256(RELEASE.as_bytes()));
        let policy = Policy::unsigned(&site.text("[\"release\", \"policy\"]", &pin));
        let release = Entry::Release(sha256(RELEASE.as_bytes()));
        let entry = Entry::Policy(policy.digest().as_bytes());
        let now = SystemTime::now();
        site.log(&[release], &[release]);
        assert!(why(&policy, now).starts_with("policy: "));
        site.log(&[Entry::Policy([9; 32]), entry], &[entry]);
        policy.logged(now).unwrap();
        policy.logged(now).unwrap();
        fs::remove_file(site.proof(&release)).unwrap();
        assert!(why(&policy, now).starts_with("release: "));
    }

    #[test]
    fn a_release_is_pinned_by_its_file() {
        let site = Site::new();
        let (right, wrong) = (site.pin(sha256(RELEASE.as_bytes())), site.pin([0; 32]));
        let parse = |demand: &str, more: &str| {
            Draft::parse(
                &site.text(demand, more),
                Path::new("/home/owner/policy.toml"),
            )
        };
        let policy = parse("[\"release\"]", &right).unwrap();
        assert_eq!(policy.attestation().sgx.mrenclave[0].0, [0x11; 32]);
        let loose = |more: &str| {
            assert!(matches!(
                parse("[\"release\"]", more),
                Err(PolicyError::LooseMeasurements)
            ));
        };
        loose("");
        let other = "22".repeat(32);
        loose(&format!(
            "{right}[attestation.sgx]\nmrenclave = [\"{other}\"]\n"
        ));
        loose(&format!(
            "{right}[attestation.sgx]\nsigners = [{{ mrsigner = \"{other}\", product = 1, \
             min_svn = 1 }}]\n"
        ));
        assert!(matches!(
            parse("[\"release\"]", &wrong),
            Err(PolicyError::Release { .. })
        ));
        assert!(matches!(
            parse("[]", &right),
            Err(PolicyError::NothingLogged)
        ));
        let twice = site
            .text("[\"policy\"]", "")
            .replacen("quorum = 1", "quorum = 2", 1);
        assert!(matches!(
            Draft::parse(&twice, Path::new("/x/policy.toml")),
            Err(PolicyError::Log(_))
        ));
        let unknown = RELEASE.replacen("mrenclave", "mrsigner", 1);
        fs::write(site.folder.path().join("release.json"), &unknown).unwrap();
        let pin = site.pin(sha256(unknown.as_bytes()));
        assert!(matches!(
            parse("[\"release\"]", &pin),
            Err(PolicyError::Release { .. })
        ));
    }
}
