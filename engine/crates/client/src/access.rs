//! On whose behalf this client engine works, and what that user may have.
//!
//! The driver's JVM belongs to the user, so nothing that it says counts here: who the user is was settled when the client engine
//! started (the owner lowers itself with `--user`) or, in a key service, by the kernel's word on the connection. What the user may read
//! and write the policy says as it is now: a right that is taken away is gone with the next stage.

use std::{os::unix::fs::MetadataExt, sync::Arc, time::SystemTime};

use coffer_keys::{Policy, Rights};
use coffer_proto::plan::{Fragment, node::Op};

use crate::{ClientError, Service, home, tables::Opened};

/// What tells one state of the policy's file from another.
#[derive(PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: Option<SystemTime>,
    since: (i64, i64),
}

/// The policy as it was read last, so that not every request parses it.
#[derive(Default)]
pub(crate) struct Read(Option<(Stamp, Arc<Policy>)>);

impl Service {
    /// Lets this client engine act for one of the policy's users, who has less than the owner.
    pub fn on_behalf_of(mut self, user: &str) -> Result<Self, ClientError> {
        self.policy.rights(user)?;
        self.user = Some(user.to_owned());
        Ok(self)
    }

    /// The policy as it is now.
    pub(crate) fn policy_now(&self) -> Result<Arc<Policy>, ClientError> {
        let path = self.home.policy();
        let stamp = std::fs::metadata(&path).ok().map(|found| Stamp {
            inode: found.ino(),
            size: found.size(),
            changed: found.modified().ok(),
            since: (found.ctime(), found.ctime_nsec()),
        });
        let mut read = self.read.lock();
        match (&read.0, &stamp) {
            (Some((held, policy)), Some(stamp)) if held == stamp => return Ok(Arc::clone(policy)),
            _ => {}
        }
        let policy = Arc::new(Policy::load(&path)?);
        read.0 = stamp.map(|stamp| (stamp, Arc::clone(&policy)));
        Ok(policy)
    }

    pub(crate) fn rights(&self) -> Result<Rights, ClientError> {
        match &self.user {
            None => Ok(Rights::owner()),
            Some(user) => Ok(self.policy_now()?.rights(user)?),
        }
    }

    /// Errors unless the user may use the keys of these columns of the files, and of one column at least.
    pub(crate) fn may_read<'a>(
        &self,
        table: &Opened,
        file_columns: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ClientError> {
        let Opened::Sealed(sealed) = table else {
            return Ok(());
        };
        let rights = self.rights()?;
        let mut denied: Vec<String> = file_columns
            .into_iter()
            .filter_map(|name| table.column_of(name))
            .filter(|column| !rights.reads(sealed.name(), column))
            .map(str::to_owned)
            .collect();
        let columns = sealed.manifest().columns.iter().map(|column| column.name.as_str());
        if denied.is_empty() && !rights.reads_some(sealed.name(), columns) {
            denied.push("*".to_owned());
        }
        self.refuse(sealed.name(), denied)
    }

    /// Errors unless the user may write versions of a table, and may use the keys of all its columns: who can write a column can read it.
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
        let denied = columns.into_iter().filter(|column| !rights.reads(table, column));
        self.refuse(table, denied.map(str::to_owned).collect())
    }

    /// The columns that a part of a plan would open at home.
    pub(crate) fn may_reveal(&self, fragment: &Fragment) -> Result<(), ClientError> {
        let opened = home::nodes(fragment).into_iter().filter_map(|node| match &node.op {
            Some(Op::Reveal(reveal)) => Some(&reveal.columns),
            _ => None,
        });
        opened
            .flatten()
            .filter(|column| column.handle != 0)
            .try_for_each(|column| self.may_read(&*self.table(column.handle)?, [column.stored.as_str()]))
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
