//! The malicious host below Spark: the real client engine and real enclaves, and between them a
//! small executor whose connection goes through the proxy. Every mutation of the proxy's, many
//! times over: each run ends in an error that names a check, or in the right rows.
//!
//! Attacks of several steps are [`scenarios`]. What is not harmless must be detected at least once
//! in a run (`judge`).
//!
//! `COFFER_ATTACK_RUNS`: how many applied mutations (default 300), `COFFER_ATTACK_SEED`,
//! `COFFER_ATTACK_ONLY`: these scenarios alone, and `COFFER_ATTACK_JSON`: where the counts go.

#[path = "../it/harness/mod.rs"]
mod harness;
mod host;
mod judge;
mod panics;
mod scenarios;
mod shape;
mod users;
mod whole;

use std::{
    collections::{BTreeMap, HashMap},
    env,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use coffer_proxy::{
    mutations::{self, Mutation},
    rng::Rng,
};
use harness::Site;
use host::{Host, Slot};
use scenarios::End;
use shape::Shape;

/// Tries of a mutation in a row without a place to apply it.
const TRIES: u64 = 60;
const HOSTS: usize = 2;
/// Past this a scenario counts as hung.
const HANGS: Duration = Duration::from_secs(120);

#[test]
fn every_mutation_is_detected_or_harmless() {
    let runs: usize = variable("COFFER_ATTACK_RUNS", 300);
    let seed: u64 = variable("COFFER_ATTACK_SEED", 20_261_121);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let site = runtime.block_on(Site::open());
    panics::watch();
    let applied = AtomicUsize::new(0);
    let only: String = variable("COFFER_ATTACK_ONLY", String::new());
    let mut counts = if only.is_empty() {
        in_messages(&site, &runtime, runs, seed, &applied)
    } else {
        BTreeMap::new()
    };
    for name in scenarios::NAMES {
        if only.is_empty() || only.split(',').any(|one| one == *name) {
            counts.insert(name, runtime.block_on(played(name, runs, seed)));
        }
    }
    if let Some(path) = env::var_os("COFFER_ATTACK_JSON") {
        let counts: serde_json::Map<_, _> = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), count.json()))
            .collect();
        std::fs::write(
            PathBuf::from(path),
            serde_json::json!({ "mutations": counts, "seed": seed }).to_string(),
        )
        .unwrap();
    }
    let mut findings: Vec<&String> = counts.values().flat_map(|count| &count.findings).collect();
    // Of runs beside the last ones.
    let late = panics::taken();
    findings.extend(&late);
    assert!(findings.is_empty(), "{findings:#?}");
    let idle: Vec<_> = counts
        .iter()
        .filter(|(_, count)| count.applied == 0)
        .map(|(name, _)| *name)
        .collect();
    assert!(idle.is_empty(), "never applied: {idle:?}");
    let undetected: Vec<_> = counts
        .iter()
        .filter(|(name, count)| count.detected == 0 && judge::must_be_detected(name))
        .map(|(name, count)| (*name, count.applied))
        .collect();
    assert!(undetected.is_empty(), "never detected: {undetected:?}");
}

/// Altered messages, by several hosts at a time.
fn in_messages(
    site: &Site,
    runtime: &tokio::runtime::Runtime,
    runs: usize,
    seed: u64,
    applied: &AtomicUsize,
) -> BTreeMap<&'static str, Count> {
    thread::scope(|scope| {
        let hosts: Vec<_> = (0..HOSTS)
            .map(|number| {
                scope.spawn(move || {
                    campaign(
                        &Slot {
                            site,
                            runtime,
                            number,
                        },
                        runs,
                        seed,
                        applied,
                    )
                })
            })
            .collect();
        let mut all: BTreeMap<&'static str, Count> = BTreeMap::new();
        for host in hosts {
            for (name, count) in host.join().unwrap() {
                all.entry(name).or_default().add(count);
            }
        }
        all
    })
}

/// One scenario, once in some hundreds of runs.
async fn played(name: &'static str, runs: usize, seed: u64) -> Count {
    let mut count = Count::default();
    let mut rng = Rng::new(seed);
    for turn in 0..(runs / 500).clamp(1, 20) {
        let began = Instant::now();
        let mut one = Rng::new(rng.bits());
        // On a task of its own: what the harness itself did not expect is a finding too, and so is
        // silence.
        let playing = tokio::spawn(async move { scenarios::play(name, &mut one).await });
        let end = match tokio::time::timeout(HANGS, playing).await {
            Ok(Ok(end)) => end,
            Ok(Err(error)) => End::Wrong(format!("the harness: {error}")),
            Err(_) => End::Wrong("hang".to_owned()),
        };
        let mut findings: Vec<String> = panics::taken();
        count.tried += 1;
        count.applied += 1;
        count.seconds += began.elapsed().as_secs_f64();
        match &end {
            End::RightRows if judge::may_be_right(name) => count.right_rows += 1,
            End::RightRows => findings.push("undetected".to_owned()),
            End::Wrong(what) => findings.push(what.clone()),
            End::Detected(code) => match judge::check(name, code) {
                Ok(code) => {
                    count.detected += 1;
                    *count.checks.entry(code).or_default() += 1;
                }
                Err(finding) => findings.push(finding),
            },
        }
        let findings = findings
            .into_iter()
            .map(|finding| format!("{finding}: {name} turn {turn}: {end:?}"));
        count.findings.extend(findings);
    }
    count
}

fn variable<T: std::str::FromStr>(name: &str, or: T) -> T {
    env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(or)
}

#[derive(Default)]
struct Count {
    tried: u64,
    applied: u64,
    detected: u64,
    right_rows: u64,
    seconds: f64,
    checks: BTreeMap<String, u64>,
    findings: Vec<String>,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.applied += other.applied;
        self.detected += other.detected;
        self.right_rows += other.right_rows;
        self.seconds += other.seconds;
        for (code, count) in other.checks {
            *self.checks.entry(code).or_default() += count;
        }
        self.findings.extend(other.findings);
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "tried": self.tried, "applied": self.applied, "detected": self.detected,
                "right_rows": self.right_rows,
            "wrong": self.findings.len(), "seconds": self.seconds, "checks": self.checks,
                "findings": self.findings,
        })
    }
}

/// Mutation after mutation until enough were applied, all hosts together.
fn campaign(
    slot: &Slot<'_>,
    runs: usize,
    seed: u64,
    applied: &AtomicUsize,
) -> BTreeMap<&'static str, Count> {
    let mutations: Vec<(&'static str, Mutation)> = mutations::all()
        .into_iter()
        .filter(|(_, mutation)| !matches!(mutation, Mutation::Exchange))
        .collect();
    let mut rng = Rng::new(seed ^ slot.number as u64);
    let mut counts: BTreeMap<&'static str, Count> = BTreeMap::new();
    let mut seen: HashMap<(&'static str, bool), u64> = HashMap::new();
    let mut host = Host::open(slot, 0);
    let mut engines = 1;
    for shape in [Shape::Sums, Shape::Joined] {
        host.ask(shape).unwrap();
    }
    for turn in 0.. {
        let (name, mutation) =
            mutations[(turn + slot.number * mutations.len() / HOSTS) % mutations.len()];
        let settled = |count: &Count| count.applied > 0 || count.tried >= TRIES;
        let all_settled = || counts.len() == mutations.len() && counts.values().all(settled);
        if applied.load(Ordering::Relaxed) >= runs && all_settled() {
            break;
        }
        let count = counts.entry(name).or_default();
        if count.applied == 0 && settled(count) {
            continue;
        }
        let shape = if rng.coin() {
            Shape::Sums
        } else {
            Shape::Joined
        };
        let positions = seen.entry((name, shape == Shape::Sums)).or_insert(1);
        let (mutation_seed, skip) = (
            rng.bits(),
            rng.below(usize::try_from(*positions).unwrap()) as u64,
        );
        let began = Instant::now();
        if matches!(mutation, Mutation::Attest(_) | Mutation::Evidence(_)) {
            engines += 1;
            host.renew(slot, engines);
        }
        host.recorder.arm(name, mutation_seed, skip);
        let (report, ended) = host.attacked(mutation, shape, mutation_seed);
        *positions = report.seen.max(*positions);
        count.tried += 1;
        count.seconds += began.elapsed().as_secs_f64();
        let what = format!(
            "{name} {shape:?} seed={mutation_seed} skip={skip}: {:?}: {ended:?}",
            report.what
        );
        // Both hosts' engines are in this process: a panic counts, whichever of the two runs it was
        // in.
        let mut defects: Vec<String> = panics::taken();
        defects.extend(host.recorder.faults());
        defects.extend(judge::beside(name, report.beside.as_deref()));
        let verdict = match &ended {
            Ok(rows) if *rows != shape.expected() => Err("rows".to_owned()),
            Ok(_) if report.what.is_some() && mutation.position() == "boot" => {
                Err("accepted".to_owned())
            }
            Ok(_) if report.what.is_some() && !judge::may_be_right(name) => {
                Err("undetected".to_owned())
            }
            Ok(_) => Ok(None),
            Err(code) if report.what.is_some() => judge::check(name, code).map(Some),
            Err(_) => Err("refused without a mutation".to_owned()),
        };
        defects.extend(verdict.as_ref().err().cloned());
        let wrong = !defects.is_empty();
        count.findings.extend(
            defects
                .into_iter()
                .map(|defect| format!("{defect}: {what}")),
        );
        if report.what.is_some() {
            applied.fetch_add(1, Ordering::Relaxed);
            count.applied += 1;
            match verdict {
                Ok(None) if !wrong => count.right_rows += 1,
                Ok(Some(code)) if !wrong => {
                    count.detected += 1;
                    *count.checks.entry(code).or_default() += 1;
                }
                _ => {}
            }
        }
        if host.id.is_empty() {
            engines += 1;
            host.renew(slot, engines);
        }
    }
    counts
}
