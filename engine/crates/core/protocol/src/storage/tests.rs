//! A store that keeps to the protocol, and one that does not.

use std::collections::BTreeMap;

use futures::executor::block_on;
use parking_lot::Mutex;

use super::*;

/// Files in memory, and what becomes of an answer.
#[derive(Default)]
struct Memory {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    asked: Mutex<Vec<StorageRequest>>,
    mutation: Option<fn(&StorageRequest, StorageAnswer) -> StorageAnswer>,
}

impl Memory {
    fn with(path: &str, bytes: Vec<u8>) -> Self {
        let memory = Self::default();
        memory.files.lock().insert(path.to_owned(), bytes);
        memory
    }

    fn mutated(mut self, mutation: fn(&StorageRequest, StorageAnswer) -> StorageAnswer) -> Self {
        self.mutation = Some(mutation);
        self
    }

    fn answer(&self, request: &StorageRequest) -> storage_answer::Of {
        use storage_answer::Of as A;
        use storage_request::Of as Q;
        let mut files = self.files.lock();
        match request.of.clone().unwrap() {
            Q::Size(size) => A::Size(storage_answer::Size {
                bytes: files.get(&size.path).map(|bytes| bytes.len() as u64),
            }),
            Q::Ranges(ranges) => {
                let file = files.get(&ranges.path).unwrap();
                let cut = |range: &PortRange| {
                    Bytes::copy_from_slice(&file[range.start as usize..range.end as usize])
                };
                A::Ranges(storage_answer::Ranges {
                    ranges: ranges.ranges.iter().map(cut).collect(),
                })
            }
            Q::Put(put) => {
                let file = files.entry(put.path).or_default();
                assert_eq!(file.len() as u64, put.offset);
                file.extend_from_slice(&put.bytes);
                A::Done(storage_answer::Done {})
            }
            Q::PutIfAbsent(put) => {
                let taken = files.contains_key(&put.path);
                if !taken {
                    files.insert(put.path, put.bytes.to_vec());
                }
                A::PutIfAbsent(storage_answer::PutIfAbsent { taken })
            }
            Q::List(list) => {
                let names = files
                    .keys()
                    .filter_map(|path| path.strip_prefix(&list.path));
                let entries = names
                    .filter(|name| *name > list.after.as_str())
                    .map(|name| storage_answer::Entry {
                        name: name.to_owned(),
                        folder: false,
                    });
                let mut entries: Vec<_> = entries.collect();
                let more = entries.len() > 2;
                entries.truncate(2);
                A::List(storage_answer::List { entries, more })
            }
            Q::Delete(delete) => {
                files.remove(&delete.path);
                A::Done(storage_answer::Done {})
            }
        }
    }
}

#[async_trait]
impl Port for Memory {
    async fn ask(&self, request: StorageRequest) -> io::Result<StorageAnswer> {
        self.asked.lock().push(request.clone());
        let answer = StorageAnswer {
            of: Some(self.answer(&request)),
        };
        Ok(match self.mutation {
            Some(mutation) => mutation(&request, answer),
            None => answer,
        })
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}

#[test]
fn ranges_are_joined_cut_and_given_as_they_were_asked_for() {
    let file = bytes(40 << 20);
    let remote = Remote::new(Memory::with("s3a://b/f", file.clone()));
    let asked = [
        // Over the edge of a piece, and within one.
        8_388_600..8_388_620_u64,
        20_000_000..20_000_001,
        5..10,
        0..3,
        7..9,
        4..4,
        1_000_000..30_000_000,
        35_000_000..35_000_001,
    ];
    let got = block_on(remote.ranges("s3a://b/f", &asked)).unwrap();
    for (range, got) in asked.iter().zip(&got) {
        assert_eq!(got[..], file[range.start as usize..range.end as usize]);
    }
    let requests = remote.port().asked.lock();
    // 30 MB in pieces of 8 MiB; what lies near each other is one range.
    assert_eq!(requests.len(), 5);
    for request in requests.iter() {
        let Some(storage_request::Of::Ranges(ranges)) = &request.of else {
            panic!("{request:?}");
        };
        let sum: u64 = ranges.ranges.iter().map(|r| r.end - r.start).sum();
        assert!(sum <= RANGES_MOST);
    }
    drop(requests);
    assert!(
        block_on(remote.ranges("s3a://b/f", &[]))
            .unwrap()
            .is_empty()
    );
    let backwards = std::ops::Range { start: 3, end: 1 };
    assert!(block_on(remote.ranges("s3a://b/f", &[backwards])).is_err());
}

#[test]
fn files_are_put_in_parts_listed_and_removed() {
    let remote = Remote::new(Memory::default());
    let file = bytes(9 << 20);
    block_on(async {
        let first = Bytes::copy_from_slice(&file[..5 << 20]);
        remote.put("h/a", 0, first, false).await.unwrap();
        let rest = Bytes::copy_from_slice(&file[5 << 20..]);
        remote.put("h/a", 5 << 20, rest, true).await.unwrap();
        remote.put("h/e", 0, Bytes::new(), true).await.unwrap();
        assert!(
            remote
                .put_if_absent("h/m", Bytes::from_static(b"m"))
                .await
                .unwrap()
        );
        assert!(
            !remote
                .put_if_absent("h/m", Bytes::from_static(b"n"))
                .await
                .unwrap()
        );
        assert_eq!(remote.size("h/a").await.unwrap(), Some(9 << 20));
        assert_eq!(remote.size("h/none").await.unwrap(), None);
        let names: Vec<_> = remote.list("h/").await.unwrap();
        let names: Vec<_> = names.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a", "e", "m"]);
        remote.delete("h/a", false).await.unwrap();
        assert_eq!(remote.size("h/a").await.unwrap(), None);
    });
    let asked = remote.port().asked.lock();
    let lasts = asked.iter().filter_map(|request| match &request.of {
        Some(storage_request::Of::Put(put)) => Some((put.bytes.len(), put.last)),
        _ => None,
    });
    assert_eq!(
        lasts.collect::<Vec<_>>(),
        [
            (4 << 20, false),
            (1 << 20, false),
            (4 << 20, true),
            (0, true)
        ]
    );
}

fn kind<T: fmt::Debug>(result: io::Result<T>) -> io::ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn no_answer_to_ranges_is_believed() {
    use storage_answer::Of as A;
    type Mutation = fn(&StorageRequest, StorageAnswer) -> StorageAnswer;
    fn of(ranges: Vec<Bytes>) -> StorageAnswer {
        StorageAnswer {
            of: Some(A::Ranges(storage_answer::Ranges { ranges })),
        }
    }
    fn ranges(answer: StorageAnswer) -> Vec<Bytes> {
        match answer.of {
            Some(A::Ranges(ranges)) => ranges.ranges,
            _ => panic!(),
        }
    }
    let mutations: [(&str, Mutation, io::ErrorKind); 9] = [
        (
            "short",
            |_, answer| {
                let mut ranges = ranges(answer);
                ranges[0].truncate(1);
                of(ranges)
            },
            io::ErrorKind::UnexpectedEof,
        ),
        (
            "long",
            |_, answer| {
                let mut ranges = ranges(answer);
                let last = ranges.len() - 1;
                ranges[last] = [ranges[last].as_ref(), b"x"].concat().into();
                of(ranges)
            },
            io::ErrorKind::InvalidData,
        ),
        (
            "one_less",
            |_, answer| {
                let mut ranges = ranges(answer);
                ranges.pop();
                of(ranges)
            },
            io::ErrorKind::InvalidData,
        ),
        (
            "one_more",
            |_, answer| {
                let mut ranges = ranges(answer);
                ranges.push(Bytes::new());
                of(ranges)
            },
            io::ErrorKind::InvalidData,
        ),
        ("none", |_, _| of(Vec::new()), io::ErrorKind::InvalidData),
        (
            "empty",
            |_, _| StorageAnswer { of: None },
            io::ErrorKind::InvalidData,
        ),
        (
            "another_kind",
            |_, _| StorageAnswer {
                of: Some(A::Done(storage_answer::Done {})),
            },
            io::ErrorKind::InvalidData,
        ),
        (
            "failure",
            |_, _| StorageAnswer {
                of: Some(A::Failure(Failure {
                    kind: Kind::NotFound.into(),
                    message: "gone\n".repeat(1000),
                })),
            },
            io::ErrorKind::NotFound,
        ),
        (
            "failure_of_no_kind",
            |_, _| StorageAnswer {
                of: Some(A::Failure(Failure {
                    kind: 99,
                    message: String::new(),
                })),
            },
            io::ErrorKind::Other,
        ),
    ];
    for (name, mutation, want) in mutations {
        let remote = Remote::new(Memory::with("f", bytes(1 << 20)).mutated(mutation));
        let error = block_on(remote.ranges("f", &[0..10, 500_000..500_010])).unwrap_err();
        assert_eq!(error.kind(), want, "{name}");
        assert!(error.to_string().len() <= 600, "{name}");
        assert!(!error.to_string().contains('\n'), "{name}");
    }
}

#[test]
fn no_listing_is_believed() {
    use storage_answer::Of as A;
    fn of(names: &[&str], more: bool) -> StorageAnswer {
        let entries = names.iter().map(|name| storage_answer::Entry {
            name: (*name).to_owned(),
            folder: false,
        });
        StorageAnswer {
            of: Some(A::List(storage_answer::List {
                entries: entries.collect(),
                more,
            })),
        }
    }
    type Mutation = fn(&StorageRequest, StorageAnswer) -> StorageAnswer;
    let mutations: [(&str, Mutation); 9] = [
        ("long_name", |_, _| of(&["n".repeat(1025).as_str()], false)),
        ("out_of_order", |_, _| of(&["b", "a"], false)),
        ("twice", |_, _| of(&["a", "a"], false)),
        ("slash", |_, _| of(&["a/b"], false)),
        ("parent", |_, _| of(&[".."], false)),
        ("nul", |_, _| of(&["a\0"], false)),
        ("nameless", |_, _| of(&[""], false)),
        ("the_same_page_for_ever", |_, _| of(&["a"], true)),
        ("nothing_and_more", |_, _| of(&[], true)),
    ];
    for (name, mutation) in mutations {
        let remote = Remote::new(Memory::default().mutated(mutation));
        assert_eq!(
            kind(block_on(remote.list("f"))),
            io::ErrorKind::InvalidData,
            "{name}"
        );
    }
}

#[test]
fn what_is_a_url() {
    for (path, is) in [
        ("s3a://b/t", true),
        ("hdfs://n:1/t", true),
        ("/data/s3a://b/t", false),
        ("data/s3a://b", false),
        ("s3a:/b/t", false),
        ("://b", false),
        ("t", false),
        ("", false),
    ] {
        assert_eq!(url(Path::new(path)).is_some(), is, "{path}");
    }
    assert_eq!(
        url(&Path::new("s3a://b/t").join("part-1")),
        Some("s3a://b/t/part-1")
    );
}
