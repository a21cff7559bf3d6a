//! Files of object stores: S3 and what speaks its protocol, Azure's, and Google's.

use std::{cell::RefCell, collections::HashMap, net::IpAddr, sync::Arc};

use bytes::{Bytes, BytesMut};
use object_store::{
    Error, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey},
    azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder,
    list::{PaginatedListOptions, PaginatedListStore},
    path::Path,
};
use tokio::{
    sync::Semaphore,
    task::{JoinError, JoinSet},
};

use crate::{
    answers::{Answer, Listings, Names, failure, other, unserved, within},
    port::{
        storage_answer::{Done, Failure, Kind, Of, PutIfAbsent, Ranges, Size},
        storage_request::{self, Of as Asked},
    },
    profile,
};

/// What is known here of a store.
trait Store: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Store for T {}

/// A part of an upload; S3 wants 5 MiB at least.
const PART: usize = 8 << 20;

/// Parts of one upload that are under way at the same time, and of all.
const AT_ONCE: usize = 4;
const UNDERWAY: usize = 12;

/// The buckets that were asked for, and the files that are being put.
#[derive(Default)]
pub(crate) struct Objects {
    buckets: RefCell<HashMap<String, Arc<dyn Store>>>,
    uploads: RefCell<HashMap<String, Upload>>,
    listings: RefCell<Listings>,
    room: Room,
}

/// For parts of all uploads that are under way.
struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(UNDERWAY)))
    }
}

#[derive(Default)]
struct Upload {
    parts: Option<Box<dyn MultipartUpload>>,
    /// Parts that are under way.
    underway: JoinSet<object_store::Result<()>>,
    waiting: BytesMut,
    offset: u64,
}

impl Objects {
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

    /// The store of a URL, and the path there.
    async fn at(&self, url: &str) -> Result<(Arc<dyn Store>, Path), Failure> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| unserved(url))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let root = format!("{scheme}://{bucket}");
        let known = self.buckets.borrow().get(&root).map(Arc::clone);
        let store = match known {
            Some(store) => store,
            None => {
                let store: Arc<dyn Store> = match scheme {
                    "s3a" => Arc::new(s3(bucket).await.map_err(failed)?),
                    "abfss" => {
                        let store = MicrosoftAzureBuilder::from_env().with_url(&root).build();
                        Arc::new(store.map_err(failed)?)
                    }
                    "gs" => {
                        let store = GoogleCloudStorageBuilder::from_env()
                            .with_bucket_name(bucket)
                            .build();
                        Arc::new(store.map_err(failed)?)
                    }
                    _ => return Err(unserved(url)),
                };
                self.buckets.borrow_mut().insert(root, Arc::clone(&store));
                store
            }
        };
        let path = Path::parse(key).map_err(|error| other(&error.to_string()))?;
        Ok((store, path))
    }

    async fn size(&self, url: &str) -> Answer {
        let (store, path) = self.at(url).await?;
        let bytes = match store.head(&path).await {
            Ok(found) => Some(found.size),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(failed(error)),
        };
        Ok(Of::Size(Size { bytes }))
    }

    async fn ranges(&self, asked: storage_request::Ranges) -> Answer {
        let (store, path) = self.at(&asked.path).await?;
        let ranges = within(&asked.ranges)?;
        let read = store.get_ranges(&path, &ranges).await.map_err(failed)?;
        Ok(Of::Ranges(Ranges { ranges: read }))
    }

    async fn put(&self, asked: storage_request::Put) -> Answer {
        let (store, path) = self.at(&asked.path).await?;
        // Taken out: where it fails, nothing more comes of it.
        let begun = self.uploads.borrow_mut().remove(&asked.path);
        let mut upload = match (begun, asked.offset) {
            (None, 0) => Upload::default(),
            (Some(upload), offset) if offset == upload.offset => upload,
            (upload, _) => {
                give_up(upload).await;
                return Err(other("a part out of order"));
            }
        };
        let put = upload.put(store.as_ref(), &path, &self.room, &asked.bytes, asked.last);
        if let Err(error) = put.await {
            give_up(Some(upload)).await;
            return Err(failed(error));
        }
        if !asked.last {
            self.uploads.borrow_mut().insert(asked.path, upload);
        }
        Ok(Of::Done(Done {}))
    }

    async fn put_if_absent(&self, asked: storage_request::PutIfAbsent) -> Answer {
        let (store, path) = self.at(&asked.path).await?;
        let payload = PutPayload::from_bytes(asked.bytes);
        let put = store.put_opts(&path, payload.clone(), PutMode::Create.into());
        let taken = match put.await {
            Ok(_) => false,
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => true,
            // Whoever asks is safe without: its register decides what counts.
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                match store.head(&path).await {
                    Ok(_) => true,
                    Err(Error::NotFound { .. }) => {
                        store.put(&path, payload).await.map_err(failed)?;
                        false
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            Err(error) => return Err(failed(error)),
        };
        Ok(Of::PutIfAbsent(PutIfAbsent { taken }))
    }

    async fn list(&self, asked: storage_request::List) -> Answer {
        let (store, path) = self.at(&asked.path).await?;
        let kept = self.listings.borrow_mut().kept(&asked);
        let names = match kept {
            Some(names) => names,
            None => list(store.as_ref(), &path, &asked.after).await?,
        };
        Ok(self.listings.borrow_mut().page(asked.path, names))
    }

    async fn delete(&self, asked: storage_request::Delete) -> Answer {
        let (store, path) = self.at(&asked.path).await?;
        let begun = self.uploads.borrow_mut().remove(&asked.path);
        give_up(begun).await;
        if !asked.folder {
            match store.delete(&path).await {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(Of::Done(Done {}))
    }
}

impl Upload {
    async fn put(
        &mut self,
        store: &dyn ObjectStore,
        path: &Path,
        room: &Room,
        bytes: &Bytes,
        last: bool,
    ) -> object_store::Result<()> {
        self.waiting.extend_from_slice(bytes);
        self.offset = self
            .offset
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if last && self.parts.is_none() {
            let whole = std::mem::take(&mut self.waiting).freeze();
            return store.put(path, whole.into()).await.map(|_| ());
        }
        if self.waiting.len() < PART && !last {
            return Ok(());
        }
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(store.put_multipart(path).await?),
        };
        if !self.waiting.is_empty() {
            while self.underway.len() >= AT_ONCE {
                landed(self.underway.join_next().await)?;
            }
            // One that is given to nobody else: the semaphore is never closed.
            let room = Arc::clone(&room.0).acquire_owned().await.ok();
            let part = parts.put_part(std::mem::take(&mut self.waiting).freeze().into());
            self.underway.spawn(async move {
                let _room = room;
                part.await
            });
        }
        if last {
            while let Some(part) = self.underway.join_next().await {
                landed(Some(part))?;
            }
            parts.complete().await?;
        }
        Ok(())
    }
}

/// How one of the parts ended.
fn landed(part: Option<Result<object_store::Result<()>, JoinError>>) -> object_store::Result<()> {
    match part {
        None => Ok(()),
        Some(Ok(put)) => put,
        Some(Err(error)) => Err(error.into()),
    }
}

/// A bucket by the settings and credentials that AWS's own tools find.
async fn s3(bucket: &str) -> object_store::Result<AmazonS3> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    let has = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).is_some();
    let settings = profile::settings().await;
    if !has(&builder, AmazonS3ConfigKey::Region)
        && !has(&builder, AmazonS3ConfigKey::DefaultRegion)
        && let Some(region) = settings.region()
    {
        builder = builder.with_region(region.as_ref());
    }
    if !has(&builder, AmazonS3ConfigKey::Endpoint)
        && let Some(endpoint) = settings.endpoint_url()
    {
        builder = builder.with_endpoint(endpoint);
    }
    // Elsewhere AWS_ALLOW_HTTP says whether it goes unencrypted.
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    if endpoint.is_some_and(|endpoint| is_loopback(&endpoint)) {
        builder = builder.with_allow_http(true);
    }
    // Which of several it is, is the chain's to say, as for all AWS tools.
    let chain = profile::Chain::of(&settings).await;
    builder.with_credentials(Arc::new(chain)).build()
}

/// A folder's names behind one.
async fn list(store: &dyn Store, folder: &Path, after: &str) -> Result<Names, Failure> {
    let prefix = (!folder.as_ref().is_empty()).then(|| format!("{folder}/"));
    let mut names = Names::behind(after);
    let mut page_token = None;
    loop {
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            page_token: page_token.take(),
            ..PaginatedListOptions::default()
        };
        let page = store.list_paginated(prefix.as_deref(), options).await;
        let page = page.map_err(failed)?;
        let files = page
            .result
            .objects
            .iter()
            .map(|file| (&file.location, false));
        let folders = page.result.common_prefixes.iter().map(|at| (at, true));
        for (at, is_folder) in files.chain(folders) {
            // What Hadoop leaves in a folder's place is the folder itself.
            if let Some(name) = at.filename().filter(|_| at != folder) {
                names.add(name, is_folder)?;
            }
        }
        // One without entries counts too, since there may be another behind it.
        names.answered()?;
        match page.page_token {
            Some(next) => page_token = Some(next),
            None => return Ok(names),
        }
    }
}

/// Parts of a file that never becomes whole go.
async fn give_up(upload: Option<Upload>) {
    if let Some(mut upload) = upload {
        // One that came after would stay.
        upload.underway.shutdown().await;
        if let Some(mut parts) = upload.parts {
            let _ = parts.abort().await;
        }
    }
}

/// Whether a URL's host is this machine.
fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_address = host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    !authority.contains('@') && (is_address || host == "localhost")
}

fn failed(error: Error) -> Failure {
    let kind = match &error {
        Error::NotFound { .. } => Kind::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => Kind::Exists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Kind::Denied,
        _ => Kind::Other,
    };
    failure(kind, &error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_this_machine() {
        for (url, is) in [
            ("http://127.0.0.1:9000", true),
            ("http://127.1.2.3/x", true),
            ("http://[::1]:9000/", true),
            ("http://localhost:9000", true),
            ("http://10.0.0.1:9000", false),
            ("http://[2001:db8::1]", false),
            ("http://localhost.example", false),
            ("http://127.0.0.1@example", false),
            ("http://127.0.0.1:x@example", false),
            ("http://example/127.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(url), is, "{url}");
        }
    }
}
