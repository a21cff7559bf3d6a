//! On whose behalf this client engine works, and what that user may have.
//!
//! The driver's JVM belongs to the user, so nothing that it says counts here: who the user is was
//! settled when the client engine started (the owner lowers itself with `--user`) or, in a key
//! service, by the kernel's word on the connection, or by a certificate. What the user may read and
//! write the policy says as it is now: a right that is taken away is gone with the next stage.

use std::{sync::Arc, time::Duration};

use coffer_audit::Who;
use coffer_custody::{Policy, Rights, Stamp};
use coffer_protocol::{
    plan::Fragment,
    wire::{CheckRead, ReadChecked},
};

use crate::{ClientError, Service, run, table::Opened};

/// How long the policy's files must have rested before what was read of them is believed without a
/// look into them.
const REST: Duration = Duration::from_secs(2);

/// The policy as it was read last, so that not every request parses it, and both of its files as
/// they were then.
#[derive(Default)]
pub(crate) struct Read(Option<([Stamp; 2], Arc<Policy>)>);

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// An account, by the kernel's word.
    Account {
        uid: u32,
        /// Its name, where it has one.
        name: Option<String>,
    },
    /// Who holds the key of a certificate, by the word of the relay that spoke TLS with it.
    Certificate {
        /// Its subject alternative names.
        names: Vec<String>,
        /// SHA-256 of it, in hexadecimal.
        fingerprint: String,
    },
}

/// By what a peer is told from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PeerId {
    Account(u32),
    Certificate(String),
}

impl Peer {
    pub(crate) fn of(uid: u32) -> Self {
        let account = uzers::get_user_by_uid(uid);
        let name = account.as_ref().and_then(|account| account.name().to_str());
        Self::Account {
            uid,
            name: name.map(str::to_owned),
        }
    }

    pub(crate) fn id(&self) -> PeerId {
        match self {
            Self::Account { uid, .. } => PeerId::Account(*uid),
            Self::Certificate { fingerprint, .. } => PeerId::Certificate(fingerprint.clone()),
        }
    }

    /// The user that it is by a policy.
    pub(crate) fn user<'a>(&self, policy: &'a Policy) -> Result<&'a str, ClientError> {
        let user = match self {
            Self::Account { uid, name } => policy.user_of(*uid, name.as_deref()),
            Self::Certificate { names, .. } => policy.user_of_certificate(names),
        };
        user?.ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> ClientError {
        match self {
            Self::Account { uid, .. } => ClientError::UnknownAccount(*uid),
            Self::Certificate { names, .. } => ClientError::UnknownCertificate(names.join(", ")),
        }
    }

    /// For the audit log: nobody yet, of an application that has no name yet.
    pub(crate) fn who(&self) -> Who {
        let (uid, certificate) = match self {
            Self::Account { uid, .. } => (*uid, String::new()),
            Self::Certificate { fingerprint, .. } => (Who::ELSEWHERE, fingerprint.clone()),
        };
        Who {
            user: Who::NOBODY.to_owned(),
            uid,
            certificate,
            application: String::new(),
        }
    }
}

/// What is wrong with the policy is said as such.
pub(crate) fn signed<T>(opened: Result<T, coffer_catalog::Error>) -> Result<T, ClientError> {
    opened.map_err(|error| match error {
        coffer_catalog::Error::Policy(error) => ClientError::Policy(error),
        other => other.into(),
    })
}

impl Service {
    /// Lets this client engine act for one of the policy's users, who has less than the owner.
    pub fn on_behalf_of(mut self, user: &str) -> Result<Self, ClientError> {
        self.read_policy()?.rights(user)?;
        self.user = Some(user.to_owned());
        Ok(self)
    }

    /// The policy as it is now. What is wrong with it is the owner's to know.
    pub(crate) fn policy_now(&self) -> Result<Arc<Policy>, ClientError> {
        self.read_policy().map_err(|error| self.as_user_sees(error))
    }

    /// What is wrong with the policy as a whole, as whom this works for is told it.
    pub(crate) fn as_user_sees(&self, error: ClientError) -> ClientError {
        match &self.user {
            Some(_) => error.without_policy(),
            None => error,
        }
    }

    fn read_policy(&self) -> Result<Arc<Policy>, ClientError> {
        let mut read = self.read.lock();
        // Before they are read: what changes meanwhile is read again.
        let stamps = [self.config_dir.policy(), self.config_dir.policy_signature()]
            .map(|path| Stamp::of(&path).ok());
        let stamps = match stamps {
            [Some(policy), Some(signature)] => Some([policy, signature]),
            _ => None,
        };
        match (&read.0, &stamps) {
            (Some((held, policy)), Some(stamps))
                if held == stamps && stamps.iter().all(|stamp| stamp.rests_since(REST)) =>
            {
                return Ok(Arc::clone(policy));
            }
            _ => {}
        }
        // What was read before does not count any more, whatever comes of this.
        read.0 = None;
        let policy = Arc::new(signed(coffer_catalog::policy::open(
            &self.config_dir,
            self.vault.keyring(),
        ))?);
        read.0 = stamps.map(|stamps| (stamps, Arc::clone(&policy)));
        Ok(policy)
    }

    pub(crate) fn rights(&self) -> Result<Rights, ClientError> {
        let Some(user) = &self.user else {
            return Ok(Rights::owner());
        };
        let policy = self.policy_now()?;
        // The account may be another user's by now, or nobody's.
        if let Some(peer) = &self.peer
            && peer
                .user(&policy)
                .map_err(|error| self.as_user_sees(error))?
                != user
        {
            return Err(peer.unknown());
        }
        policy
            .rights(user)
            .map_err(|error| self.as_user_sees(error.into()))
    }

    /// Errors unless the user may use the keys of these columns of the files, and of one column at
    /// least.
    pub(crate) fn may_read<'a>(
        &self,
        table: &Opened,
        file_columns: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ClientError> {
        let rights = self.rights()?;
        let Opened::Sealed(sealed) = table else {
            return Ok(());
        };
        let mut denied: Vec<String> = file_columns
            .into_iter()
            .filter_map(|name| table.column_of(name))
            .filter(|column| !rights.reads(sealed.name(), column))
            .map(str::to_owned)
            .collect();
        let columns = sealed
            .manifest()
            .columns
            .iter()
            .map(|column| column.name.as_str());
        if denied.is_empty() && !rights.reads_some(sealed.name(), columns) {
            denied.push("*".to_owned());
        }
        self.refuse(sealed.name(), denied)
    }

    /// Errors unless the user may write versions of a table, and may use the keys of all its
    /// columns: who can write a column can read it.
    pub(crate) fn may_write<'a>(
        &self,
        table: &str,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ClientError> {
        let rights = self.rights()?;
        if !rights.writes(table) {
            return Err(ClientError::DeniedWrite {
                user: self.user(),
                table: table.to_owned(),
            });
        }
        let denied = columns
            .into_iter()
            .filter(|column| !rights.reads(table, column));
        self.refuse(table, denied.map(str::to_owned).collect())
    }

    /// Errors unless the user may read the columns that a part of a plan would open at the client.
    /// A ciphertext does not tell of which column it is: among columns of one link, a right to one
    /// opens those of the others too.
    pub(crate) fn may_decrypt(&self, fragment: &Fragment) -> Result<(), ClientError> {
        run::decrypted(fragment).try_for_each(|column| {
            self.may_read(&*self.table(column.handle)?, [column.stored.as_str()])
        })
    }

    /// What the planner asks before anything of a query runs. The keys are asked for again, one by
    /// one.
    pub(crate) fn check_read(&self, request: &CheckRead) -> Result<ReadChecked, ClientError> {
        let rights = self.rights()?;
        if let Opened::Sealed(sealed) = &*self.table(request.handle)? {
            let denied =
                (request.columns.iter()).filter(|column| !rights.reads(sealed.name(), column));
            self.refuse(sealed.name(), denied.cloned().collect())?;
        }
        Ok(ReadChecked {})
    }

    /// Positions of the columns that the user may not read.
    pub(crate) fn denied(&self, table: &Opened) -> Result<Vec<u32>, ClientError> {
        let Opened::Sealed(sealed) = table else {
            return Ok(Vec::new());
        };
        let rights = self.rights()?;
        let columns = (0_u32..).zip(&sealed.manifest().columns);
        let denied = columns.filter(|(_, column)| !rights.reads(sealed.name(), &column.name));
        Ok(denied.map(|(at, _)| at).collect())
    }

    /// The user's name; the owner's is empty.
    pub(crate) fn user(&self) -> String {
        self.user.clone().unwrap_or_default()
    }

    fn refuse(&self, table: &str, mut columns: Vec<String>) -> Result<(), ClientError> {
        columns.sort_unstable();
        columns.dedup();
        match columns.is_empty() {
            true => Ok(()),
            false => Err(ClientError::Denied {
                user: self.user(),
                table: table.to_owned(),
                columns,
            }),
        }
    }
}
