//! Which store a question is for.

use crate::{
    answers::{other, unserved},
    hdfs::Hdfs,
    object::Objects,
    port::{StorageAnswer, StorageRequest, storage_answer::Of, storage_request::Of as Asked},
};

/// All stores that are known here, reached at need.
#[derive(Default)]
pub(crate) struct Stores {
    objects: Objects,
    hdfs: Hdfs,
}

impl Stores {
    /// One question's answer.
    pub(crate) async fn answer(&self, request: StorageRequest) -> StorageAnswer {
        let answer = match request.of {
            None => Err(other("a question of unknown kind")),
            Some(asked) => {
                let scheme = url(&asked).split_once("://").map(|(scheme, _)| scheme);
                match scheme {
                    Some("s3a" | "abfss" | "gs") => self.objects.answer(asked).await,
                    Some("hdfs") => self.hdfs.answer(asked).await,
                    _ => Err(unserved(url(&asked))),
                }
            }
        };
        StorageAnswer {
            of: Some(answer.unwrap_or_else(Of::Failure)),
        }
    }
}

fn url(asked: &Asked) -> &str {
    match asked {
        Asked::Size(asked) => &asked.path,
        Asked::Ranges(asked) => &asked.path,
        Asked::Put(asked) => &asked.path,
        Asked::PutIfAbsent(asked) => &asked.path,
        Asked::List(asked) => &asked.path,
        Asked::Delete(asked) => &asked.path,
    }
}
