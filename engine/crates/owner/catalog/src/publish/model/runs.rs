//! What is run: step by step, at random, and what was once found so.

use super::*;

#[test]
fn every_step_fails_or_is_the_last() {
    each_step(World::new);
}

#[test]
fn every_step_at_a_url_fails_or_is_the_last() {
    each_step(World::at_url);
}

/// Each step of a write fails or is the last, in each way; then the host does something, somebody
/// looks or not, the host does something else, and the writer tries again.
fn each_step(world: fn() -> World) {
    let steps = steps_of(world, What::Append(1));
    let between = [
        (None, None, true),
        (Some(Act::Restore(0)), None, true),
        (Some(Act::HideManifests), Some(Act::Restore(0)), false),
    ];
    let mut failed = [0; 3];
    for step in 0..steps {
        for fate in FATES {
            for lasting in [false, true] {
                if lasting && fate != Fate::Fails && fate != Fate::DoneButFails {
                    continue;
                }
                for (first, second, looks) in between {
                    let context = || {
                        format!(
                            "step {step} {fate:?} lasting {lasting}, then {first:?}, {second:?}, \
                                {looks}"
                        )
                    };
                    let mut world = world();
                    let faults = Faults {
                        fate: Some((step, fate)),
                        lasting,
                        host: None,
                    };
                    world.write(What::Append(1), faults);
                    failed[match world.known[&1] {
                        Known::Written => 0,
                        Known::Not => 1,
                        Known::Open => 2,
                    }] += 1;
                    world.act(first);
                    if looks {
                        let _ = world.look(&context);
                    }
                    world.act(second);
                    world.retry(1, &context);
                    world.end(&context);
                }
            }
        }
    }
    // Steps whose failure does not matter, steps that make the write fail, and steps that nobody is
    // told of.
    assert!(failed.iter().all(|times| *times > 20), "{failed:?}");
}

#[test]
fn the_host_acts_at_every_step() {
    acts_at_each_step(World::new);
}

#[test]
fn the_host_acts_at_every_step_at_a_url() {
    acts_at_each_step(World::at_url);
}

/// At each step of a write the host does each thing, and the writer tries again as often as it is
/// told that it failed.
fn acts_at_each_step(world: fn() -> World) {
    let last = steps_of(world, What::Append(1));
    for what in [What::Append(1), What::Reencrypt] {
        for step in 0..steps_of(world, what) {
            // A fresh key changes little of what the host can do.
            let acts = match what {
                What::Append(_) => &ACTS[..],
                What::Reencrypt => &ACTS[step % ACTS.len()..=step % ACTS.len()],
            };
            for act in acts.iter().copied() {
                let context = || format!("{what:?}: at step {step} {act:?}");
                let mut world = world();
                // Something that failed, of which the host has the manifest: it died as it stored
                // that it counts.
                let died = Faults {
                    fate: Some((last - 4, Fate::DiesBefore)),
                    ..Faults::default()
                };
                world.write(What::Append(2), died);
                let faults = Faults {
                    host: Some((step, act)),
                    ..Faults::default()
                };
                world.write(what, faults);
                world.act(Some(Act::Restore(1)));
                for value in [1, 2] {
                    if world.known.contains_key(&value) {
                        world.retry(value, &context);
                    }
                }
                world.end(&context);
            }
        }
    }
}

#[test]
fn at_random() {
    several_at_random(World::new);
}

#[test]
fn at_random_at_a_url() {
    several_at_random(World::at_url);
}

/// Several writers one after the other, with faults and a host at random, the same ones for the
/// same seed; and a store at random, where there is one.
fn several_at_random(world: fn() -> World) {
    let last = steps_of(world, What::Append(1));
    let mut rng = fastrand::Rng::with_seed(20_261_122);
    let mut draw = move |below: usize| rng.usize(..below);
    for round in 0..120 {
        let mut world = world();
        let mut story = Vec::new();
        for value in 1..=4 {
            for _ in 0..1 + draw(2) {
                let what = if draw(5) == 0 {
                    What::Reencrypt
                } else {
                    What::Append(value)
                };
                if matches!(what, What::Append(_))
                    && world
                        .known
                        .get(&value)
                        .is_some_and(|known| *known != Known::Not)
                {
                    continue;
                }
                let steps = 1 + last;
                let faults = Faults {
                    fate: (draw(3) > 0).then(|| (draw(steps), FATES[draw(4)])),
                    lasting: draw(4) == 0,
                    host: (draw(2) == 0).then(|| (draw(steps), ACTS[draw(ACTS.len())])),
                };
                story.push(format!("{what:?} {faults:?}"));
                if let Some(store) = &world.store {
                    let late = (draw(3) == 0).then(|| (draw(4), draw(30)));
                    let stale = draw(2) == 0;
                    story.push(format!("late {late:?} stale {stale}"));
                    store.is(late, stale);
                }
                world.write(what, faults);
            }
            let act = (draw(2) == 0).then(|| ACTS[draw(ACTS.len())]);
            story.push(format!("{act:?}"));
            world.act(act);
            if draw(2) == 0 {
                let _ = world.look(&|| format!("round {round}: {story:?}"));
            }
        }
        world.end(&|| format!("round {round}: {story:?}"));
    }
}

/// The first version: where it fails or its process dies there is no table, whatever the host puts
/// back.
#[test]
fn a_new_table_that_failed_is_none() {
    let whole = |fate: Option<(usize, Fate)>, lasting: bool| {
        let mut world = World::new();
        let record = world.register().by_name("t").unwrap().unwrap();
        fs::remove_dir_all(&record.path).unwrap();
        world.register().remove(record.id).unwrap();
        let host = Host {
            folder: record.path,
            files: BTreeMap::new(),
            manifests: BTreeMap::new(),
        };
        world.host = Rc::new(RefCell::new(host));
        let steps = Rc::new(RefCell::new(0));
        let (count, host) = (Rc::clone(&steps), Rc::clone(&world.host));
        fault::begin(move |_, _| {
            let at = count.replace_with(|at| *at + 1);
            host.borrow_mut().watch();
            fate.filter(|(step, _)| *step == at || (lasting && *step < at))
                .map_or(Fate::Done, |(_, fate)| fate)
        });
        let made = world.create().and_then(|write| match file(&write, 5) {
            Ok(pin) => write.publish(vec![pin]).map(|_| ()),
            Err(error) => {
                let _ = write.abandon();
                Err(error)
            }
        });
        let died = fault::end();
        (world, made, died, steps.take())
    };
    let restore = |world: &World| {
        let mut host = world.host.borrow_mut();
        host.watch();
        if let Some(seen) = host.manifests.get(&1).cloned() {
            let _ = fs::create_dir_all(host.folder.join(MANIFEST_FOLDER));
            fs::write(host.position(1), &seen[0]).unwrap();
            host.restore_files();
        }
    };
    let (_, made, _, steps) = whole(None, false);
    made.unwrap();
    for step in 0..steps {
        for (fate, lasting) in FATES
            .map(|fate| (fate, false))
            .into_iter()
            .chain([(Fate::Fails, true)])
        {
            let (world, made, died, _) = whole(Some((step, fate)), lasting);
            if lasting {
                restore(&world);
            }
            let before = world.open().map(|table| values(&table).unwrap());
            restore(&world);
            let after = world.open().map(|table| values(&table).unwrap());
            let known = matches!(&made, Err(Error::PublicationUnknown { .. })) || died;
            match (&made, &before) {
                (Ok(()), before) => assert_eq!(before.as_ref().unwrap(), &[5]),
                (Err(_), Ok(rows)) => assert!(known && rows == &[5], "{step} {fate:?}: {made:?}"),
                (Err(_), Err(_)) => {}
            }
            assert_eq!(before.is_ok(), after.is_ok(), "{step} {fate:?}: {after:?}");
            if before.is_ok() {
                continue;
            }
            // It can be made again, once what is left is cleared away.
            if let Some(record) = world.register().by_name("t").unwrap() {
                clean::clean_unfinished(&world.config_dir, &world.register(), &record).unwrap();
            }
            let _ = fs::remove_dir_all(world.folder.path().join("t"));
            let write = world.create().unwrap();
            let pin = file(&write, 6).unwrap();
            assert_eq!(values(&write.publish(vec![pin]).unwrap()).unwrap(), [6]);
        }
    }
}

/// Two programs at once, whose every failure is tried again, and a host that hides and restores
/// meanwhile.
#[test]
fn two_writers_and_a_host_at_once() {
    let world = World::new();
    let (config_dir, policy, folder) = (
        &world.config_dir,
        &world.policy,
        world.folder.path().join("t"),
    );
    let done = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    let mut host = Host {
        folder,
        files: BTreeMap::new(),
        manifests: BTreeMap::new(),
    };
    let shown = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_i64)
            .map(|writer| {
                scope.spawn(move || {
                    let mut shown = Vec::new();
                    for value in writer * 100 + 1..=writer * 100 + 15 {
                        // A host that hides can fail a writer as often as it likes.
                        let attempt = || -> Result<(), Error> {
                            let table =
                                open_table(config_dir, vault(), policy, &Target::Name("t".into()))?;
                            let write = TableWrite::next(
                                config_dir,
                                vault(),
                                policy,
                                &table,
                                Change::Append,
                            )?;
                            let pin = file(&write, value)?;
                            write.publish(vec![pin]).map(|_| ())
                        };
                        let written = (0..6).any(|_| attempt().is_ok());
                        shown.push((value, written));
                    }
                    shown
                })
            })
            .collect();
        let hosting = scope.spawn(|| {
            while !done.load(order) {
                host.watch();
                let newest = host.manifests.keys().max().copied().unwrap_or(1);
                let taken = host.position(newest);
                if let Some(bytes) = host.take(&taken) {
                    std::thread::sleep(std::time::Duration::from_micros(300));
                    put_back(&taken, &bytes);
                }
                let planted = host.position(newest + 1);
                put_back(&planted, b"planted");
                std::thread::sleep(std::time::Duration::from_micros(300));
                if let Some(bytes) = host.take(&planted).filter(|bytes| bytes != b"planted") {
                    put_back(&planted, &bytes);
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            host
        });
        let shown: Vec<_> = writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect();
        done.store(true, order);
        (shown, hosting.join().unwrap())
    });
    let (shown, mut host) = shown;
    host.watch();
    let committed = world
        .register()
        .by_name("t")
        .unwrap()
        .unwrap()
        .committed
        .unwrap();
    host.honest(&BTreeMap::from([(
        committed.version,
        committed.hash.unwrap(),
    )]));
    let rows = values(&world.open().unwrap()).unwrap();
    for (value, written) in &shown {
        let times = rows.iter().filter(|row| *row == value).count();
        assert_eq!(times, usize::from(*written), "{value}");
    }
    // A host that never rests can fail every attempt; once it does, a write succeeds.
    let table = world.open().unwrap();
    let write = TableWrite::next(config_dir, vault(), policy, &table, Change::Append).unwrap();
    let last = file(&write, 1000).unwrap();
    let rows = values(&write.publish(vec![last]).unwrap()).unwrap();
    assert!(rows.contains(&1000));
}

/// Storage that gives another footer back than it was given, before the writer has ended: what was
/// written is pinned.
#[test]
fn a_footer_is_pinned_as_it_was_written() {
    let world = World::new();
    let table = world.open().unwrap();
    let write = TableWrite::next(
        &world.config_dir,
        vault(),
        &world.policy,
        &table,
        Change::Append,
    )
    .unwrap();
    fault::begin(|op, path| {
        if op == Op::Sync && path.extension().is_some_and(|kind| kind == "parquet") {
            let mut bytes = fs::read(path).unwrap();
            let at = bytes.len() - 20;
            bytes[at] ^= 1;
            fs::write(path, bytes).unwrap();
        }
        Fate::Done
    });
    let pin = file(&write, 1).unwrap();
    assert!(!fault::end());
    let published = write.publish(vec![pin]).unwrap();
    assert!(matches!(
        values(&published),
        Err(Error::Format(FormatError::FooterDigest))
    ));
}

/// Puts a file where there is none.
fn put_back(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    if let Ok(mut file) = fs::File::create_new(path) {
        file.write_all(bytes).unwrap();
    }
}
