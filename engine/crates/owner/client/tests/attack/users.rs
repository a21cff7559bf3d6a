//! Attacks by a user of the owner's, who may read one column of a link, or write tables: guesses
//! without end, and folders anywhere.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use coffer_protocol::wire::{
    BeginWrite, ClientMessage, EncryptLiterals, LiteralsEncrypted, OpenTable, Problem, TableInfo,
    WriteBegun, begin_write::Mode,
};
use coffer_proxy::rng::Rng;

use crate::{
    harness::{Site, ir},
    scenarios::End,
};

/// `name` and `alias` of two tables are encrypted alike; the user may read the one.
const POLICY: &str = r#"
attestation.accept = ["simulated"]
[tables.people.columns]
name = { protection = ["tee", "det"], link = "name" }
n = "tee"
[roles.some]
tables.people = ["name"]
[roles.loader]
tables.people = ["name", "n"]
tables.made = "*"
write = ["made", "people"]
[users.ann]
roles = ["some"]
[users.lou]
roles = ["loader"]
"#;
/// More than any policy lets a user ask for in a day unless it says so.
const GUESSES: usize = 40_000;
const AT_A_TIME: usize = 500;

async fn people(site: &Site, client: &mut crate::harness::Client) -> TableInfo {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..50).map(|n| format!("person {n}")),
    ));
    let path = site.table(
        "people",
        "name STRING, n BIGINT",
        vec![vec![names, numbers]],
    );
    let open = OpenTable {
        path: path.display().to_string(),
        ..OpenTable::default()
    };
    client.ask(ClientMessage::OpenTable, &open).await.unwrap()
}

/// A user has guesses encrypted until one is refused: all on one connection, or on a new one for
/// each batch.
pub(crate) async fn guess(anew: bool) -> End {
    let site = Site::acting(POLICY, Some("ann")).await;
    let mut client = site.client().await;
    let table = people(&site, &mut client).await;
    let stored = table
        .stored
        .iter()
        .find(|stored| stored.protection == "det")
        .unwrap();
    for first in (0..GUESSES).step_by(AT_A_TIME) {
        if anew {
            client = site.client().await;
        }
        let handle = match anew {
            true => {
                let open = OpenTable {
                    path: table.path.clone(),
                    ..OpenTable::default()
                };
                let again: TableInfo = client.ask(ClientMessage::OpenTable, &open).await.unwrap();
                again.handle
            }
            false => table.handle,
        };
        let guesses = (first..first + AT_A_TIME).map(|guess| ir::text(&format!("person {guess}")));
        let request = EncryptLiterals {
            handle,
            stored: stored.name.clone(),
            literals: guesses.collect(),
        };
        let answer: Result<LiteralsEncrypted, Problem> =
            client.ask(ClientMessage::EncryptLiterals, &request).await;
        if let Err(problem) = answer {
            return End::Detected(problem.code);
        }
    }
    End::Wrong(format!("{GUESSES} guesses were encrypted"))
}

/// A user who may write tables has one made where no role of the user's may.
pub(crate) async fn outside(rng: &mut Rng) -> End {
    let site = Site::acting(POLICY, Some("lou")).await;
    let mut client = site.client().await;
    let table = people(&site, &mut client).await;
    let mine = site.folder.path().join("people");
    let there = site.folder.path().join("owner");
    let (path, made) = match rng.below(3) {
        0 => (there.clone(), there),
        1 => (mine.join("../owner"), there),
        _ => {
            std::fs::create_dir(&there).unwrap();
            std::os::unix::fs::symlink(&there, mine.join("link")).unwrap();
            (mine.join("link/made"), there.join("made"))
        }
    };
    let begin = BeginWrite {
        mode: Mode::Create.into(),
        path: path.display().to_string(),
        schema: table.schema.clone(),
        handle: table.handle,
        name: "made".to_owned(),
        ..BeginWrite::default()
    };
    let answer: Result<WriteBegun, Problem> = client.ask(ClientMessage::BeginWrite, &begin).await;
    match answer {
        Ok(_) => End::Wrong(format!("a table was begun at {}", path.display())),
        Err(_) if made.exists() => End::Wrong(format!("{} was made", made.display())),
        Err(problem) => End::Detected(problem.code),
    }
}
