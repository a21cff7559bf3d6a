//! Writes of sealed tables: begun here, carried out by engines under their KEKs alone, published
//! here.
//!
//! A write pins the policy's word on every column when it begins. Of what engines report, only
//! files named in the sealed commit records of its own stage enter a manifest, one attempt of each
//! task; whatever else lies in the folder counts for nothing.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use coffer_audit::{Event, TableUse};
use coffer_catalog::{
    Change, Error as TableError, NewColumns, Register, TableRecord, TableWrite, Target,
    VerifiedManifest, clean, open_table, policy, spelling,
};
use coffer_custody::{
    Policy,
    location::{self, Location},
};
use coffer_format::{Digest, FilePin, RowGroupPin};
use coffer_protocol::{
    plan::Schema,
    storage::url,
    wire::{
        AbortWrite, BeginWrite, CheckPlain, DropTable, PlainChecked, PublishWrite, RenameTable,
        TableDropped, TableRenamed, WriteAborted, WriteBegun, WriteColumn, WritePublished,
        WriteTask, WrittenFile, begin_write::Mode,
    },
};
use coffer_sealing::{KekId, TableId};

use crate::{
    ClientError, Service,
    access::signed,
    commits::Commit,
    made::{FILE_BYTES, Made, ROW_GROUP_BYTES, ROW_GROUP_ROWS},
    session::{Output, Session},
    table::Opened,
    types::{data_type, declared, declared_type, field},
};

/// Schemes of Hadoop file systems that speak to a storage over a network, whatever the path. Not
/// here: what shows other file systems under names of its own (`viewfs`, `har`, `alluxio`), and
/// what has local mounts as a rule (`dbfs`, `maprfs`).
const REMOTE: [&str; 20] = [
    "hdfs", "webhdfs", "swebhdfs", "s3", "s3a", "s3n", "abfs", "abfss", "wasb", "wasbs", "adl",
    "gs", "gcs", "oci", "oss", "cos", "cosn", "obs", "o3fs", "ofs",
];

/// Writes that were begun and are not over, by number.
#[derive(Default)]
pub(crate) struct Writes {
    begun: HashMap<u32, (Arc<TableWrite>, Made)>,
    last: u32,
}

impl Writes {
    fn begin(&mut self, write: TableWrite) -> u32 {
        self.last += 1;
        let begun = (Arc::new(write), Made::default());
        self.begun.insert(self.last, begun);
        self.last
    }

    fn get(&self, number: u32) -> Result<Arc<TableWrite>, ClientError> {
        self.begun(number).cloned()
    }

    pub(crate) fn begun(&self, number: u32) -> Result<&Arc<TableWrite>, ClientError> {
        let begun = self.begun.get(&number);
        let (write, _) = begun.ok_or(ClientError::WriteUnknown(number))?;
        Ok(write)
    }

    /// What was made here for it.
    pub(crate) fn made(&mut self, number: u32) -> Result<&mut Made, ClientError> {
        let begun = self.begun.get_mut(&number);
        let (_, made) = begun.ok_or(ClientError::WriteUnknown(number))?;
        Ok(made)
    }

    fn take(&mut self, number: u32) -> Result<(TableWrite, Made), ClientError> {
        let unknown = ClientError::WriteUnknown(number);
        let Some((write, made)) = self.begun.remove(&number) else {
            return Err(unknown);
        };
        // A stage that is being sealed at this moment holds it too; nobody else does.
        Ok((Arc::into_inner(write).ok_or(unknown)?, made))
    }
}

impl Service {
    pub(crate) fn begin_write(&self, request: &BeginWrite) -> Result<WriteBegun, ClientError> {
        // As for reading: the tables' part of the policy may have changed.
        let policy = self.policy_now()?;
        let write = match request.mode() {
            Mode::Create => self.create(&policy, request)?,
            Mode::Replace if self.is_absent(&policy, &folder(request)?)? => {
                self.create(&policy, request)?
            }
            Mode::Replace => {
                let target = Target::Path(folder(request)?);
                let parent = open_table(&self.config_dir, &self.vault, &policy, &target)?;
                let new = new_columns(request)?;
                self.may_write(parent.name(), names(&new))?;
                if !request.name.is_empty() {
                    self.called(&request.name, &request.path, parent.manifest().table)?;
                }
                let change = Change::Replace(new);
                TableWrite::next(&self.config_dir, &self.vault, &policy, &parent, change)?
            }
            mode => {
                let opened = self.table(request.handle)?;
                let Opened::Sealed(parent) = opened.as_ref() else {
                    return Err(ClientError::HandleUnknown(request.handle));
                };
                let columns = &parent.manifest().columns;
                self.may_write(
                    parent.name(),
                    columns.iter().map(|column| column.name.as_str()),
                )?;
                let only = || {
                    let pair = |only: &coffer_protocol::wire::begin_write::Only| {
                        let value = only.value.clone().unwrap_or_default().value;
                        (only.column.clone(), value)
                    };
                    request.only.iter().map(pair).collect()
                };
                let change = match mode {
                    Mode::Append => Change::Append,
                    Mode::OverwritePartitions => Change::OverwritePartitions,
                    _ if request.only.is_empty() => Change::Overwrite,
                    _ => Change::OverwriteWhere(only()),
                };
                TableWrite::next(&self.config_dir, &self.vault, &policy, parent, change)?
            }
        };
        if !write.stored().is_empty() {
            return Err(ClientError::HostReadable(write.name().to_owned()));
        }
        let name = |at: &usize| write.columns().get(*at).map(|column| column.name.clone());
        let mut begun = WriteBegun {
            write: 0,
            table_id: write.table().to_string(),
            name: write.name().to_owned(),
            path: write.folder().display().to_string(),
            version: write.version(),
            schema: Some(Schema {
                fields: write.columns().iter().map(field).collect(),
            }),
            partition_columns: write.partition_columns().iter().filter_map(name).collect(),
        };
        begun.write = self.writes.lock().begin(write);
        Ok(begun)
    }

    fn create(&self, policy: &Policy, request: &BeginWrite) -> Result<TableWrite, ClientError> {
        let folder = folder(request)?;
        let name = match request.name.as_str() {
            "" => folder
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default(),
            name => name,
        };
        let new = new_columns(request)?;
        // Before anything of the table is made.
        self.may_write(name, names(&new))?;
        self.may_make(policy, name, &folder)?;
        if new.is_host_readable(policy, name) {
            return Err(ClientError::HostReadable(name.to_owned()));
        }
        let write = TableWrite::create(&self.config_dir, &self.vault, policy, name, &folder, new)?;
        // Who owns a folder on the way may have changed where it leads since it was looked at.
        if let Err(error) = self
            .may_make(policy, name, &folder)
            .and_then(|()| self.may_be(policy, name, &write.real_folder()?))
        {
            let _ = write.abandon();
            return Err(error);
        }
        Ok(write)
    }

    /// Errors unless the user may have a table made at a folder: what is made there, this process
    /// makes, and it may make folders where the user's account may not.
    fn may_make(&self, policy: &Policy, name: &str, folder: &Path) -> Result<(), ClientError> {
        // Where a path leads that cannot be followed, a user is not told.
        match policy.may_make(&self.rights()?, name, folder) {
            Ok(true) => Ok(()),
            _ => Err(ClientError::DeniedFolder {
                user: self.user(),
                path: folder.to_owned(),
            }),
        }
    }

    /// The same of a folder as it was found to be.
    fn may_be(&self, policy: &Policy, name: &str, real: &Path) -> Result<(), ClientError> {
        let rights = self.rights()?;
        let is = |root: &Path| match url(root) {
            Some(_) => real.starts_with(root),
            None => std::fs::canonicalize(root).is_ok_and(|root| real.starts_with(root)),
        };
        let named = policy.table(name).ok().and_then(|table| table.path());
        if rights.is_owner() || rights.write_roots().any(is) || named.is_some_and(is) {
            return Ok(());
        }
        Err(ClientError::DeniedFolder {
            user: self.user(),
            path: real.to_owned(),
        })
    }

    /// What engines must know to write, and the KEKs that they need for it.
    pub(crate) fn write_of(&self, write: u32) -> Result<Arc<TableWrite>, ClientError> {
        self.writes.lock().get(write)
    }

    fn take_write(&self, number: u32) -> Result<(TableWrite, Made), ClientError> {
        self.writes.lock().take(number)
    }

    pub(crate) fn publish_write(
        &self,
        request: &PublishWrite,
    ) -> Result<WritePublished, ClientError> {
        let (write, made) = self.take_write(request.write)?;
        let (files, pins) = match self.to_publish(request, &write, made) {
            Ok(found) => found,
            Err(error) => {
                // The first failure is what counts; what cannot be removed now, `verify --clean`
                // removes.
                let _ = write.abandon();
                return Err(error);
            }
        };
        let ordered_columns = ordered(&write, &files);
        let (id, created) = (write.id(), write.version() == 1);
        let published = write.publish(pins)?;
        // Attempts that were not chosen. Those still running leave theirs for `verify --clean`.
        let _ = TableWrite::remove_strays(&published, id);
        let warning = match created {
            true => self.record(&published).err().map(|error| {
                let error = self.as_user_sees(error);
                format!(
                    "`{}` is sealed, but the policy could not be given its entry: {error}",
                    published.name()
                )
            }),
            false => None,
        };
        Ok(WritePublished {
            version: published.manifest().version,
            rows: files.iter().map(|file| file.rows).sum(),
            bytes: files.iter().map(|file| file.size).sum(),
            files: u32::try_from(files.len()).unwrap_or(u32::MAX),
            ordered_columns,
            warning: warning.unwrap_or_default(),
        })
    }

    /// What a version is made of, if the user may still make one. The audit log has it first.
    fn to_publish(
        &self,
        request: &PublishWrite,
        write: &TableWrite,
        made: Made,
    ) -> Result<(Vec<WrittenFile>, Vec<FilePin>), ClientError> {
        // A version without files had no stage, and so nobody has asked since it was begun.
        self.may_write(
            write.name(),
            write.columns().iter().map(|column| column.name.as_str()),
        )?;
        let (files, host_chosen) = self.written(request, write, made)?;
        let pin = |file| pin(file, host_chosen);
        let pins = files.iter().map(pin).collect::<Result<_, _>>()?;
        self.audit_publish(write)?;
        Ok((files, pins))
    }

    /// The files that were made here; or those of the write's stage: of each of its tasks exactly
    /// one commit record, taken once. And whether the host may have chosen rows of them.
    fn written(
        &self,
        request: &PublishWrite,
        write: &TableWrite,
        made: Made,
    ) -> Result<(Vec<WrittenFile>, bool), ClientError> {
        let (files, host_chosen) = match made.published(request)? {
            Some(made) => made,
            None if request.session.is_empty() && request.commits.is_empty() => {
                return Ok((Vec::new(), false));
            }
            None => {
                let session = self.session(&request.session)?;
                commits(&mut session.lock(), request)?
            }
        };
        let mut paths = HashSet::new();
        for file in &files {
            if !write.id().named(&file.path) || !paths.insert(file.path.as_str()) {
                return Err(ClientError::WrittenFile(
                    "its name is not one of this write",
                ));
            }
        }
        // An engine whose storage is its own would have written them elsewhere.
        let sizes = files.iter().map(|file| (file.path.as_str(), file.size));
        write.has_files(&sizes.collect::<Vec<_>>())?;
        Ok((files, host_chosen))
    }

    fn record(&self, table: &VerifiedManifest) -> Result<(), ClientError> {
        let policy = self.policy_now()?;
        let path = policy
            .table(table.name())
            .ok()
            .and_then(|table| table.path())
            .unwrap_or(table.folder());
        let id = table.manifest().table;
        signed(policy::record_table(
            &self.config_dir,
            self.vault.keyring(),
            table.name(),
            id,
            path,
            table.master(),
        ))
    }

    pub(crate) fn abort_write(&self, request: &AbortWrite) -> Result<WriteAborted, ClientError> {
        self.take_write(request.write)?.0.abandon()?;
        Ok(WriteAborted {})
    }

    /// Plain files are Spark's own doing; but not in a zone. What is neither a local path nor a URL
    /// of a storage that is known to be another may lead into one, and is refused.
    pub(crate) fn check_plain(&self, request: &CheckPlain) -> Result<PlainChecked, ClientError> {
        let policy = self.policy_now()?;
        if policy.zones().is_empty() {
            return Ok(PlainChecked {});
        }
        let (local, urls): (Vec<&str>, Vec<&str>) = (request.paths.iter())
            .map(String::as_str)
            .partition(|path| path.starts_with('/'));
        let mut paths: Vec<PathBuf> = local.into_iter().map(PathBuf::from).collect();
        for text in urls {
            let is_remote = text
                .split_once(":/")
                .is_some_and(|(scheme, _)| REMOTE.contains(&scheme));
            match location::of(text) {
                Ok(Location::Remote(url)) if is_remote => paths.push(url.into()),
                // Of another form than a place has: below no zone of local folders.
                _ if is_remote && !policy.zones().iter().any(|zone| url(zone.path()).is_some()) => {
                }
                _ => return Err(ClientError::PlainElsewhere(text.to_owned())),
            }
        }
        policy.check_plain(paths.iter().map(PathBuf::as_path))?;
        Ok(PlainChecked {})
    }

    pub(crate) fn drop_table(&self, request: &DropTable) -> Result<TableDropped, ClientError> {
        let register = Register::of(&self.config_dir, self.vault.keyring());
        let Some(known) =
            self.managed(&register, &request.path, &request.table_id, &request.name)?
        else {
            return Ok(TableDropped {});
        };
        let id = known.id;
        self.may_write(&known.name, [])?;
        if request.check {
            return Ok(TableDropped {});
        }
        let event = Event::granted("drop table").table(TableUse {
            name: known.name.clone(),
            id: id.to_string(),
            write: true,
            ..TableUse::default()
        });
        self.audit_granted(event)?;
        let dropped = clean::forget_dropped(&register, id)?;
        let forgotten =
            policy::forget_table(&self.config_dir, self.vault.keyring(), &dropped.name, id);
        signed(forgotten).map_err(|error| self.as_user_sees(error))?;
        Ok(TableDropped {})
    }

    pub(crate) fn rename_table(&self, request: &RenameTable) -> Result<TableRenamed, ClientError> {
        let register = Register::of(&self.config_dir, self.vault.keyring());
        let Some(known) =
            self.managed(&register, &request.path, &request.table_id, &request.name)?
        else {
            register.check_free(&request.to)?;
            return Ok(TableRenamed {});
        };
        self.may_write(&known.name, [])?;
        let before = (!request.done).then(|| request.name.clone());
        let names = before.into_iter().chain([request.to.clone()]).collect();
        register.record_names(known.id, names)?;
        Ok(TableRenamed {})
    }

    /// The record of a table that a catalog manages, and that is to be dropped or renamed; none of
    /// one that does not open and that this register does not know. What the catalog says of a name
    /// is the host's word, so the name must be this table's own, and no other's: of two that differ
    /// in case alone a catalog could mean either.
    fn managed(
        &self,
        register: &Register,
        path: &str,
        table_id: &str,
        name: &str,
    ) -> Result<Option<TableRecord>, ClientError> {
        let normal = spelling::normal(&location::path(path)?)?;
        let known = match table_id {
            "" => register.by_path(&normal)?,
            _ => {
                let id: TableId = table_id
                    .parse()
                    .map_err(|_| ClientError::Malformed("a table's id"))?;
                let known = register.by_id(id)?.filter(|known| known.is_at(&normal));
                Some(known.ok_or_else(|| TableError::UnknownTable(path.to_owned()))?)
            }
        };
        match &known {
            Some(other) if !other.is_called(name) => {
                return Err(ClientError::OtherTable {
                    path: path.to_owned(),
                    want: format!("`{name}`"),
                    got: other.id.to_string(),
                });
            }
            Some(own) => self.called(name, path, own.id)?,
            None => {}
        }
        Ok(known)
    }
}

/// The write's part of the stage's descriptors.
pub(crate) fn task(write: &TableWrite) -> Result<WriteTask, ClientError> {
    let folder = write
        .folder()
        .to_str()
        .ok_or(ClientError::WrittenFile("its folder's name is no text"))?;
    let columns = write.columns().iter().map(|column| WriteColumn {
        id: column.id,
        name: column.name.clone(),
        r#type: Some(data_type(&column.kind)),
        nullable: column.nullable,
        protection: column.protection.to_string(),
        declared: declared(&column.kind),
    });
    Ok(WriteTask {
        table: write.table().as_bytes().to_vec().into(),
        folder: folder.to_owned(),
        write: write.id().as_bytes().to_vec().into(),
        columns: columns.collect(),
        partition_columns: partition_columns(write),
        row_group_rows: ROW_GROUP_ROWS,
        row_group_bytes: ROW_GROUP_BYTES,
        file_bytes: FILE_BYTES,
    })
}

pub(crate) fn partition_columns(write: &TableWrite) -> Vec<u32> {
    let columns = write.partition_columns();
    columns
        .iter()
        .filter_map(|at| u32::try_from(*at).ok())
        .collect()
}

/// The ids of the KEKs that the write's engines need.
pub(crate) fn kek_ids(write: &TableWrite) -> Vec<KekId> {
    write.keks().iter().map(coffer_sealing::Kek::id).collect()
}

fn folder(request: &BeginWrite) -> Result<PathBuf, ClientError> {
    Ok(location::path(&request.path)?)
}

fn names(new: &NewColumns) -> impl Iterator<Item = &str> {
    new.columns.iter().map(|(name, ..)| name.as_str())
}

fn new_columns(request: &BeginWrite) -> Result<NewColumns, ClientError> {
    let fields = request.schema.iter().flat_map(|schema| &schema.fields);
    let columns = fields
        .map(|field| {
            let kind = field.r#type.as_ref();
            let kind = kind.and_then(|values| declared_type(values, &field.declared));
            let kind = kind.ok_or_else(|| ClientError::ColumnType(field.name.clone()))?;
            Ok((field.name.clone(), kind, field.nullable))
        })
        .collect::<Result<_, ClientError>>()?;
    Ok(NewColumns {
        columns,
        partitioned_by: request.partition_columns.clone(),
    })
}

fn commits(
    session: &mut Session,
    request: &PublishWrite,
) -> Result<(Vec<WrittenFile>, bool), ClientError> {
    let (number, execution) = (request.stage, request.execution);
    let stage = session
        .stages
        .collected(number, execution, Output::Write(request.write))?;
    if usize::try_from(stage.partitions) != Ok(request.commits.len()) {
        return Err(ClientError::CommitCount {
            stage: number,
            want: stage.partitions,
            got: request.commits.len(),
        });
    }
    let mut files = Vec::new();
    let mut attempts = HashSet::new();
    let mut origins = session.results.origins(number, execution);
    for (partition, sealed) in (0..stage.partitions).zip(&request.commits) {
        let commit = Commit::open(session, number, partition, 0, sealed)?;
        if commit.record.execution != execution {
            return Err(ClientError::CommitIdentity {
                stage: number,
                partition,
            });
        }
        if !attempts.insert(commit.attempt) {
            return Err(ClientError::CommitRepeated {
                stage: number,
                partition,
            });
        }
        session.trace(&mut origins, number, &stage.objects, &commit.record)?;
        files.extend(commit.record.files);
    }
    session.results.take(
        number,
        execution,
        &(0..stage.partitions).collect::<Vec<_>>(),
        origins,
    )?;
    Ok((files, stage.host_chosen))
}

fn pin(file: &WrittenFile, host_chosen: bool) -> Result<FilePin, ClientError> {
    if file.aad_prefix.len() != 16 {
        return Err(ClientError::WrittenFile("its AAD prefix"));
    }
    Ok(FilePin {
        path: file.path.clone(),
        size: file.size,
        rows: file.rows,
        aad_prefix: file.aad_prefix.to_vec(),
        footer_length: file.footer_length,
        footer_sha256: Digest::try_from(file.footer_sha256.as_ref())?,
        row_groups: file
            .row_groups
            .iter()
            .map(|group| RowGroupPin {
                rows: group.rows,
                bytes: group.bytes,
            })
            .collect(),
        column_bytes: file.column_bytes.clone(),
        chunks: Vec::new(),
        adopted: None,
        partition: file
            .partition
            .iter()
            .map(|value| value.value.clone())
            .collect(),
        host_chosen,
    })
}

/// Columns in whose order every file lies, the same way. A partition column is in order by itself.
fn ordered(write: &TableWrite, files: &[WrittenFile]) -> Vec<String> {
    let order_of = |at: usize| {
        let mut orders = files
            .iter()
            .map(|file| file.order.get(at).copied().unwrap_or(0));
        let first = orders.next().filter(|order| *order != 0)?;
        orders.all(|order| order == first).then_some(first)
    };
    let columns = write.columns().iter().enumerate();
    columns
        .filter(|(at, _)| order_of(*at).is_some())
        .map(|(_, column)| column.name.clone())
        .collect()
}
