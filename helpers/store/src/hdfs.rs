//! Files of HDFS, by its own protocols. Configuration is Hadoop's (`HADOOP_CONF_DIR`), and so are
//! users and credentials.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use bytes::Bytes;
use hdfs_native::{
    Client, ClientBuilder, HdfsError, WriteOptions, client::FileStatus, file::FileWriter,
};
use uuid::Uuid;

use crate::{
    answers::{Answer, Listings, Names, failure, other, unserved, within},
    port::{
        storage_answer::{Done, Failure, Kind, Of, PutIfAbsent, Ranges, Size},
        storage_request::{self, Of as Asked},
    },
    services,
};

/// Where a NameNode listens if nothing else is said.
const PORT: u16 = 8020;

/// The file systems that were asked for, and the files that are being put.
#[derive(Default)]
pub(crate) struct Hdfs {
    clients: RefCell<HashMap<String, Arc<Client>>>,
    uploads: RefCell<HashMap<String, Upload>>,
    listings: RefCell<Listings>,
}

struct Upload {
    file: FileWriter,
    offset: u64,
}

impl Hdfs {
    pub(crate) async fn answer(&self, asked: Asked) -> Answer {
        match asked {
            Asked::Size(asked) => self.size(&asked.path).await,
            Asked::Ranges(asked) => self.ranges(asked).await,
            Asked::Put(asked) => self.put(asked).await,
            Asked::PutIfAbsent(asked) => self.put_if_absent(asked).await,
            Asked::List(asked) => self.list(asked).await,
            Asked::Delete(asked) => self.delete(asked).await,
        }
    }

    /// The file system of a URL, and the path there.
    fn at(&self, url: &str) -> Result<(Arc<Client>, String), Failure> {
        let rest = url.strip_prefix("hdfs://").ok_or_else(|| unserved(url))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut clients = self.clients.borrow_mut();
        let client = match clients.get(authority) {
            Some(client) => Arc::clone(client),
            None => {
                let client = Arc::new(connect(authority).map_err(failed)?);
                clients.insert(authority.to_owned(), Arc::clone(&client));
                client
            }
        };
        Ok((client, format!("/{path}")))
    }

    async fn size(&self, url: &str) -> Answer {
        let (client, path) = self.at(url)?;
        let bytes = match status(&client, &path).await? {
            Some(found) if !found.isdir => Some(length(&found)?),
            _ => None,
        };
        Ok(Of::Size(Size { bytes }))
    }

    async fn ranges(&self, asked: storage_request::Ranges) -> Answer {
        let (client, path) = self.at(&asked.path)?;
        let ranges = within(&asked.ranges)?;
        let file = client.read(&path).await.map_err(failed)?;
        let mut read = Vec::with_capacity(ranges.len());
        for range in ranges {
            let place = |at: u64| usize::try_from(at).map_err(|error| other(&error.to_string()));
            let (start, end) = (place(range.start)?, place(range.end)?);
            // The client would panic.
            if end > file.file_length() {
                return Err(failure(Kind::Short, "the file ends before"));
            }
            let length = end.saturating_sub(start);
            let bytes = match length {
                0 => Bytes::new(),
                _ => file.read_range(start, length).await.map_err(failed)?,
            };
            read.push(bytes);
        }
        Ok(Of::Ranges(Ranges { ranges: read }))
    }

    async fn put(&self, asked: storage_request::Put) -> Answer {
        let (client, path) = self.at(&asked.path)?;
        // Taken out: where it fails, nothing more comes of it.
        let begun = self.uploads.borrow_mut().remove(&asked.path);
        let mut upload = match (begun, asked.offset) {
            (None, 0) => Upload {
                file: create(&client, &path).await?,
                offset: 0,
            },
            (Some(upload), offset) if offset == upload.offset => upload,
            _ => return Err(other("a part out of order")),
        };
        let bytes = u64::try_from(asked.bytes.len()).unwrap_or(u64::MAX);
        upload.offset = upload.offset.saturating_add(bytes);
        let put = upload.file.write_bytes(asked.bytes).await;
        put.map_err(failed)?;
        if asked.last {
            end(&mut upload.file).await?;
        } else {
            self.uploads.borrow_mut().insert(asked.path, upload);
        }
        Ok(Of::Done(Done {}))
    }

    /// By a rename, since a file can be seen while it grows.
    async fn put_if_absent(&self, asked: storage_request::PutIfAbsent) -> Answer {
        let (client, path) = self.at(&asked.path)?;
        let taken = status(&client, &path).await?.is_some() || {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let staged = format!(
                "{folder}/.tmp-{}",
                &Uuid::new_v4().simple().to_string()[..16]
            );
            let renamed = published(&client, asked.bytes, &staged, &path).await;
            if !matches!(renamed, Ok(true)) {
                // What remains counts for nothing.
                let _ = client.delete(&staged, false).await;
            }
            !renamed?
        };
        Ok(Of::PutIfAbsent(PutIfAbsent { taken }))
    }

    async fn list(&self, asked: storage_request::List) -> Answer {
        let (client, path) = self.at(&asked.path)?;
        let kept = self.listings.borrow_mut().kept(&asked);
        let names = match kept {
            Some(names) => names,
            None => list(&client, &path, &asked.after).await?,
        };
        Ok(self.listings.borrow_mut().page(asked.path, names))
    }

    async fn delete(&self, asked: storage_request::Delete) -> Answer {
        let (client, path) = self.at(&asked.path)?;
        self.uploads.borrow_mut().remove(&asked.path);
        let wanted = match status(&client, &path).await? {
            None => false,
            Some(found) if asked.folder => {
                let inside = client.list_status_iter(&path, false);
                let first = inside.next().await.transpose().map_err(failed)?;
                found.isdir && first.is_none()
            }
            Some(found) => !found.isdir,
        };
        if wanted {
            client.delete(&path, false).await.map_err(failed)?;
        }
        Ok(Of::Done(Done {}))
    }
}

/// A folder's names behind one.
async fn list(client: &Client, path: &str, after: &str) -> Result<Names, Failure> {
    let mut names = Names::behind(after);
    let found = client.list_status_iter(path, false);
    loop {
        let found = match found.next().await {
            None | Some(Err(HdfsError::FileNotFound(_))) => return Ok(names),
            Some(found) => found.map_err(failed)?,
        };
        // Of a file HDFS lists the file itself.
        if found.path.trim_end_matches('/') != path.trim_end_matches('/')
            && let Some((_, name)) = found.path.rsplit_once('/')
        {
            names.add(name, found.isdir)?;
        }
    }
}

/// A name service of the configuration, or a NameNode.
fn connect(authority: &str) -> Result<Client, HdfsError> {
    // Names of places are in lower case, and keys of the configuration may not be.
    let authority = &services::as_configured(authority);
    let url = format!("hdfs://{authority}");
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match ClientBuilder::new().with_url(&url).build() {
        Err(_) if !has_port => ClientBuilder::new()
            .with_url(format!("{url}:{PORT}"))
            .build(),
        built => built,
    }
}

async fn status(client: &Client, path: &str) -> Result<Option<FileStatus>, Failure> {
    match client.get_file_info(path).await {
        Ok(found) => Ok(Some(found)),
        Err(HdfsError::FileNotFound(_)) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn length(found: &FileStatus) -> Result<u64, Failure> {
    u64::try_from(found.length).map_err(|error| other(&error.to_string()))
}

async fn create(client: &Client, path: &str) -> Result<FileWriter, Failure> {
    let options = WriteOptions::default().overwrite(false);
    client.create(path, options).await.map_err(failed)
}

/// Makes a file whole, and its last block durable.
async fn end(file: &mut FileWriter) -> Result<(), Failure> {
    file.hsync().await.map_err(failed)?;
    file.close().await.map_err(failed)
}

/// Whether it was there first.
async fn published(
    client: &Client,
    bytes: Bytes,
    staged: &str,
    path: &str,
) -> Result<bool, Failure> {
    let mut file = create(client, staged).await?;
    file.write_bytes(bytes).await.map_err(failed)?;
    end(&mut file).await?;
    match client.rename(staged, path, false).await {
        Ok(()) => Ok(true),
        Err(error) => match status(client, path).await? {
            Some(_) => Ok(false),
            None => Err(failed(error)),
        },
    }
}

fn failed(error: HdfsError) -> Failure {
    let kind = match &error {
        HdfsError::FileNotFound(_) => Kind::NotFound,
        HdfsError::AlreadyExists(_) => Kind::Exists,
        HdfsError::RPCError(class, _) | HdfsError::FatalRPCError(class, _)
            if class.ends_with("AccessControlException") =>
        {
            Kind::Denied
        }
        HdfsError::SASLError(_) | HdfsError::GSSAPIError(..) | HdfsError::NoSASLMechanism => {
            Kind::Denied
        }
        _ => Kind::Other,
    };
    failure(kind, &error.to_string())
}
