//! What may be done to the log by who has no keyring, and by crashes.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::PathBuf,
    thread,
};

use coffer_audit::{AuditError, AuditLog, Event, Flaw, Query, Record, TableUse, Who};
use coffer_custody::{ConfigDir, Keyring, Passphrase};
use tempfile::TempDir;

struct Site {
    _folder: TempDir,
    config_dir: ConfigDir,
    keyring: Keyring,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config_dir = ConfigDir::at(folder.path().join("config"));
        config_dir.create().unwrap();
        let keyring = Keyring::create(
            &config_dir.keyring(),
            &Passphrase::new("correct horse").unwrap(),
        )
        .unwrap();
        Self {
            _folder: folder,
            config_dir,
            keyring,
        }
    }

    fn with(records: u64) -> Self {
        let site = Self::new();
        (1..=records).for_each(|number| site.append(number).unwrap());
        site
    }

    fn log(&self) -> AuditLog {
        AuditLog::of(&self.config_dir, &self.keyring)
    }

    fn append(&self, number: u64) -> Result<(), AuditError> {
        let table = TableUse {
            name: format!("table{number}"),
            ..TableUse::default()
        };
        self.log()
            .append(&who(), Event::granted("test").table(table))
    }

    fn path(&self) -> PathBuf {
        self.log().path().to_path_buf()
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path()).unwrap();
        text.lines().map(|line| format!("{line}\n")).collect()
    }

    fn put(&self, lines: &[String]) {
        fs::write(self.path(), lines.concat()).unwrap();
    }

    /// Where the log is broken, and how; the same for who verifies and, if it can see it, for who
    /// appends.
    fn broken(&self) -> (u64, Flaw) {
        flaw(self.log().verify().unwrap_err())
    }
}

fn who() -> Who {
    Who {
        user: "ann".to_owned(),
        uid: 1001,
        certificate: String::new(),
        application: "app".to_owned(),
    }
}

fn flaw(error: AuditError) -> (u64, Flaw) {
    match error {
        AuditError::Broken { record, flaw } => (record, flaw),
        other => panic!("{other}"),
    }
}

#[test]
fn what_was_appended_is_read_again() {
    let site = Site::with(3);
    let log = site.log();
    let records: Vec<Record> = log.records().unwrap().map(Result::unwrap).collect();
    let numbers: Vec<u64> = records.iter().map(|record| record.sequence).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(
        (records[1].event.tables[0].name.as_str(), &records[1].who),
        ("table2", &who())
    );
    assert_eq!(records[0].at.len(), "2026-01-01T00:00:00.000Z".len());
    let report = log.verify().unwrap();
    assert_eq!(
        (report.records, report.unfinished, report.torn),
        (3, false, 0)
    );
    assert_eq!(Site::new().log().verify().unwrap().records, 0);
}

#[test]
fn texts_of_queries_open_with_the_keyring_only() {
    let site = Site::new();
    let log = site.log();
    let query = Query::seal(log.key(), "s1".to_owned(), "SELECT secret FROM t").unwrap();
    log.append(
        &who(),
        Event {
            query: Some(query),
            ..Event::granted("release")
        },
    )
    .unwrap();
    assert!(!site.lines().concat().contains("secret"));
    let record = log.records().unwrap().next().unwrap().unwrap();
    let query = record.event.query.unwrap();
    assert_eq!(
        query.text(log.key()).unwrap().as_deref(),
        Some("SELECT secret FROM t")
    );
    assert!(matches!(
        query.text(Site::new().log().key()),
        Err(AuditError::Query)
    ));
    assert_eq!(
        Query::seal(log.key(), String::new(), "")
            .unwrap()
            .text(log.key())
            .unwrap(),
        None
    );
    // A long text is kept in part, whole characters only.
    let long = Query::seal(log.key(), String::new(), &"é".repeat(40_000)).unwrap();
    assert_eq!(long.text(log.key()).unwrap().unwrap().len(), 64 << 10);
}

#[test]
fn an_edited_record_is_found() {
    let site = Site::with(4);
    let mut lines = site.lines();
    lines[1] = lines[1].replace("table2", "table9");
    site.put(&lines);
    assert_eq!(site.broken(), (2, Flaw::Altered));
    lines[1] = "nonsense\n".to_owned();
    site.put(&lines);
    assert_eq!(site.broken(), (2, Flaw::Malformed));
    // The last one is looked at by who appends, too.
    let mut lines = Site::with(4).lines();
    lines[3] = lines[3].replace("table4", "table9");
    let other = Site::with(4);
    let mut own = other.lines();
    own[3] = own[3].replace("table4", "table9");
    other.put(&own);
    assert_eq!(flaw(other.append(5).unwrap_err()), (4, Flaw::Replaced));
    assert_eq!(other.broken(), (4, Flaw::Altered));
}

#[test]
fn a_record_by_another_keyring_is_found() {
    let (site, other) = (Site::with(2), Site::with(2));
    site.put(&[site.lines()[0].clone(), other.lines()[1].clone()]);
    assert_eq!(site.broken(), (2, Flaw::Altered));
}

#[test]
fn removed_and_reordered_records_are_found() {
    let site = Site::with(4);
    let lines = site.lines();
    let order = |order: &[usize]| {
        site.put(
            &order
                .iter()
                .map(|at| lines[*at].clone())
                .collect::<Vec<_>>(),
        )
    };
    order(&[0, 2, 3]);
    assert_eq!(site.broken(), (2, Flaw::OutOfOrder(3)));
    order(&[1, 2, 3]);
    assert_eq!(site.broken(), (1, Flaw::OutOfOrder(2)));
    order(&[0, 2, 1, 3]);
    assert_eq!(site.broken(), (2, Flaw::OutOfOrder(3)));
    order(&[0, 1, 1, 2, 3]);
    assert_eq!(site.broken(), (3, Flaw::OutOfOrder(2)));
}

#[test]
fn a_cut_tail_is_found() {
    let site = Site::with(4);
    let lines = site.lines();
    for kept in 0..4 {
        site.put(&lines[..kept]);
        assert_eq!(site.broken(), (kept as u64 + 1, Flaw::Cut));
        assert_eq!(flaw(site.append(5).unwrap_err()), (4, Flaw::Cut));
    }
    fs::remove_file(site.path()).unwrap();
    assert_eq!(site.broken(), (1, Flaw::Cut));
    assert!(
        site.append(5).is_err(),
        "a log that is gone is not begun anew"
    );
    // In the middle of the last record.
    let text = lines.concat();
    fs::write(site.path(), &text[..text.len() - 7]).unwrap();
    assert_eq!(site.broken(), (4, Flaw::Cut));
    assert_eq!(flaw(site.append(5).unwrap_err()), (4, Flaw::Cut));
}

#[test]
fn an_older_log_with_the_newer_register_and_the_other_way_round() {
    let site = Site::with(2);
    let (old_log, old_register) = (
        fs::read(site.path()).unwrap(),
        fs::read(site.config_dir.register()).unwrap(),
    );
    (3..=5).for_each(|number| site.append(number).unwrap());
    let (log, register) = (
        fs::read(site.path()).unwrap(),
        fs::read(site.config_dir.register()).unwrap(),
    );

    fs::write(site.path(), &old_log).unwrap();
    assert_eq!(site.broken(), (3, Flaw::Cut));
    assert_eq!(flaw(site.append(6).unwrap_err()), (5, Flaw::Cut));

    fs::write(site.path(), &log).unwrap();
    fs::write(site.config_dir.register(), &old_register).unwrap();
    assert_eq!(site.broken(), (4, Flaw::Unknown));
    assert_eq!(flaw(site.append(6).unwrap_err()), (4, Flaw::Unknown));

    // A branch: another third record, of the same keyring, under the newer register.
    fs::write(site.path(), &old_log).unwrap();
    site.append(7).unwrap();
    site.append(8).unwrap();
    site.append(9).unwrap();
    fs::write(site.config_dir.register(), &register).unwrap();
    assert_eq!(site.broken(), (5, Flaw::Replaced));
    assert!(matches!(
        flaw(site.append(6).unwrap_err()),
        (5, Flaw::Replaced | Flaw::Cut)
    ));

    // Both older, together: nothing here can tell (the tables' versions may).
    fs::write(site.path(), &old_log).unwrap();
    fs::write(site.config_dir.register(), &old_register).unwrap();
    assert_eq!(site.log().verify().unwrap().records, 2);
}

#[test]
fn a_crash_between_record_and_register_is_made_good() {
    let site = Site::with(2);
    let register = fs::read(site.config_dir.register()).unwrap();
    site.append(3).unwrap();
    // The register did not hear of the third.
    fs::write(site.config_dir.register(), &register).unwrap();
    let report = site.log().verify().unwrap();
    assert_eq!((report.records, report.unfinished), (3, true));
    site.append(4).unwrap();
    assert_eq!(site.log().verify().unwrap().records, 4);
    // Of the very first, too.
    let site = Site::new();
    let register = fs::read(site.config_dir.register()).ok();
    site.append(1).unwrap();
    match register {
        Some(register) => fs::write(site.config_dir.register(), register).unwrap(),
        None => fs::remove_file(site.config_dir.register()).unwrap(),
    }
    site.append(2).unwrap();
    assert_eq!(site.log().verify().unwrap().records, 2);
}

#[test]
fn half_a_record_of_a_crash_goes_and_no_more() {
    let site = Site::with(2);
    let whole = fs::read(site.path()).unwrap();
    let third = {
        let register = fs::read(site.config_dir.register()).unwrap();
        site.append(3).unwrap();
        let third = fs::read(site.path()).unwrap()[whole.len()..].to_vec();
        fs::write(site.config_dir.register(), register).unwrap();
        third
    };
    for cut in [1, 40, 64, third.len() - 1] {
        fs::write(site.path(), [&whole[..], &third[..cut]].concat()).unwrap();
        let report = site.log().verify().unwrap();
        assert_eq!((report.records, report.torn), (2, cut as u64));
    }
    site.append(4).unwrap();
    assert_eq!(site.log().verify().unwrap().records, 3);
    // A whole line that is none of ours is not taken for a crash.
    OpenOptions::new()
        .append(true)
        .open(site.path())
        .unwrap()
        .write_all(b"{}\n")
        .unwrap();
    assert_eq!(site.broken(), (4, Flaw::Malformed));
    assert_eq!(flaw(site.append(5).unwrap_err()), (4, Flaw::Malformed));
}

#[test]
fn many_writers_take_turns() {
    let site = Site::new();
    thread::scope(|scope| {
        for writer in 0..4 {
            let site = &site;
            scope.spawn(move || {
                (0..10).for_each(|number| site.append(writer * 100 + number).unwrap())
            });
        }
    });
    assert_eq!(site.log().verify().unwrap().records, 40);
}

#[test]
fn a_log_that_cannot_be_written_is_an_error() {
    let site = Site::with(1);
    let text = fs::read(site.path()).unwrap();
    fs::remove_file(site.path()).unwrap();
    // Of the superuser too: a folder in the file's place.
    fs::create_dir(site.path()).unwrap();
    let error = site.append(2).unwrap_err();
    assert!(
        matches!(error, AuditError::Io { .. }) && error.hint().contains("nothing was released"),
        "{error}"
    );
    fs::remove_dir(site.path()).unwrap();
    // A full disk.
    std::os::unix::fs::symlink("/dev/full", site.path()).unwrap();
    assert!(site.append(2).is_err());
    fs::remove_file(site.path()).unwrap();
    fs::write(site.path(), text).unwrap();
    site.append(2).unwrap();
}

/// Run by hand for docs/reference/audit.md, with `-- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn what_a_record_costs() {
    let site = Site::with(1);
    let start = std::time::Instant::now();
    (0..200).for_each(|number| site.append(number).unwrap());
    println!("{:?} for each record", start.elapsed() / 200);
}

#[test]
fn who_reads_slowly_keeps_nobody_waiting() {
    let site = Site::with(3);
    let log = site.log();
    let mut records = log.records().unwrap();
    records.next().unwrap().unwrap();
    thread::scope(|scope| {
        let (done, appended) = std::sync::mpsc::channel();
        let site = &site;
        scope.spawn(move || done.send(site.append(4)));
        let waited = appended.recv_timeout(std::time::Duration::from_secs(60));
        // Ends the wait of a writer that is kept, so that the test fails and does not hang.
        let rest: Vec<_> = records.map(Result::unwrap).collect();
        waited.expect("the writer was kept").unwrap();
        let read: Vec<u64> = rest.iter().map(|record| record.sequence).collect();
        assert_eq!(read, [2, 3], "what was there when reading began");
    });
    assert_eq!(site.log().verify().unwrap().records, 4);
}

#[test]
fn a_refusal_is_recorded_however_much_was_asked_for() {
    let site = Site::new();
    let long = "ä".repeat(12 << 20);
    let refused = Event::refused("open", "denied_column", long.clone())
        .table(TableUse {
            name: long.clone(),
            columns: (0..300_000)
                .map(|n| format!("column {n} {}", "x".repeat(n % 1000)))
                .collect(),
            ..TableUse::default()
        })
        .detail("asked", long.clone());
    let asking = Who {
        application: long,
        ..who()
    };
    site.log().append(&asking, refused).unwrap();
    let record = site.log().records().unwrap().next().unwrap().unwrap();
    let (event, table) = (&record.event, &record.event.tables[0]);
    let cut =
        |text: &str, bytes: usize| text.ends_with('…') && text.len() <= bytes + '…'.len_utf8();
    assert!(cut(event.reason.as_deref().unwrap(), 4 << 10));
    assert!(
        cut(&table.name, 256)
            && cut(&event.details["asked"], 4 << 10)
            && cut(&record.who.application, 256)
    );
    assert_eq!(
        (table.columns.len(), table.columns[100].as_str()),
        (101, "and 299900 more")
    );
    assert!(
        table
            .columns
            .iter()
            .all(|name| name.len() <= 256 + '…'.len_utf8())
    );
    assert!(site.lines()[0].len() < 64 << 10);
}

#[test]
fn what_is_granted_is_recorded_whole() {
    let site = Site::new();
    let columns: Vec<String> = (0..1000)
        .map(|n| format!("column {n} {}", "x".repeat(n)))
        .collect();
    let table = TableUse {
        columns: columns.clone(),
        ..TableUse::default()
    };
    site.log()
        .append(&who(), Event::granted("release").table(table))
        .unwrap();
    let record = site.log().records().unwrap().next().unwrap().unwrap();
    assert_eq!(record.event.tables[0].columns, columns);
}
