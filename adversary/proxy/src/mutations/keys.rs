//! Mutations about engines and keys: what is attested, what is proved, which release goes where.

use coffer_protocol::wire::{Attest, EngineEvidence, Release, engine_evidence::Further};

use super::{Mutation, flipped};

pub(super) const MUTATIONS: &[(&str, Mutation)] = &[
    (
        "attest-other-owner",
        Mutation::Attest(|attest: &mut Attest, _, rng| {
            attest.owner_key = rng.bytes(32).into();
            Some("the key of another owner".to_owned())
        }),
    ),
    (
        "attest-other-challenge",
        Mutation::Attest(|attest: &mut Attest, _, rng| {
            attest.challenge = rng.bytes(32).into();
            Some("a challenge of the host's own".to_owned())
        }),
    ),
    (
        "attest-other-application",
        Mutation::Attest(|attest: &mut Attest, _, _| {
            attest.application.push('x');
            Some("another application".to_owned())
        }),
    ),
    (
        "attest-other-protocol",
        Mutation::Attest(|attest: &mut Attest, _, _| {
            attest.protocol = attest.protocol.wrapping_add(1);
            Some("another protocol version".to_owned())
        }),
    ),
    (
        "flip-bit-evidence",
        Mutation::Evidence(|evidence: &mut EngineEvidence, _, rng| {
            let (altered, what) = flipped(&evidence.report, rng)?;
            evidence.report = altered.into();
            Some(format!("the report: {what}"))
        }),
    ),
    (
        "old-evidence",
        Mutation::Evidence(|evidence: &mut EngineEvidence, past, rng| {
            evidence.clone_from(rng.pick(&past.evidence)?);
            Some("the evidence of an engine that is gone".to_owned())
        }),
    ),
    (
        "evidence-over-another-key",
        Mutation::Evidence(|evidence: &mut EngineEvidence, _, rng| {
            evidence.engine_key = rng.bytes(32).into();
            Some("another engine's key".to_owned())
        }),
    ),
    (
        "old-evidence-over-this-key",
        Mutation::Evidence(|evidence: &mut EngineEvidence, past, rng| {
            evidence.report = rng.pick(&past.evidence)?.report.clone();
            Some("the report of an engine that is gone, over this one's key".to_owned())
        }),
    ),
    (
        "evidence-of-another-version",
        Mutation::Evidence(|evidence: &mut EngineEvidence, _, _| {
            evidence.engine_version.push_str("-other");
            Some(format!("version {}", evidence.engine_version))
        }),
    ),
    (
        "evidence-of-another-protocol",
        Mutation::Evidence(|evidence: &mut EngineEvidence, _, _| {
            evidence.protocol = evidence.protocol.wrapping_add(1);
            Some(format!("protocol {}", evidence.protocol))
        }),
    ),
    (
        "evidence-of-another-kind",
        Mutation::Evidence(|evidence: &mut EngineEvidence, _, rng| {
            evidence.kind =
                (*rng.pick(&["sgx", "tdx", "sev-snp", "tpm", "", "unheard-of"])?).to_owned();
            Some(format!("kind {:?}", evidence.kind))
        }),
    ),
    (
        "evidence-of-one-kind-more",
        Mutation::Evidence(|evidence: &mut EngineEvidence, past, rng| {
            let kinds = [evidence.kind.as_str(), "sgx", "tdx", "sev-snp", "tpm"];
            let kind = (*rng.pick(&kinds)?).to_owned();
            let report = rng.pick(&past.evidence)?.report.clone();
            let said = format!("a report of kind {kind:?} more");
            evidence.further.push(Further { kind, report });
            Some(said)
        }),
    ),
    (
        "flip-bit-release",
        Mutation::Release(|release, _, _, rng| {
            let release = release.as_mut()?;
            let part = if rng.coin() {
                &mut release.ciphertext
            } else {
                &mut release.encapsulated
            };
            let (altered, what) = flipped(part, rng)?;
            *part = altered.into();
            Some(what)
        }),
    ),
    (
        "drop-release",
        Mutation::Release(|release, _, _, _| {
            release.take()?;
            Some("no key release".to_owned())
        }),
    ),
    (
        "release-of-another-query",
        Mutation::Release(|release, session, past, rng| {
            release.as_ref()?;
            let others = past.releases(|of| of != session);
            *release = Some(rng.pick(&others)?.clone());
            Some("another query's key release".to_owned())
        }),
    ),
    (
        "release-under-another-number",
        Mutation::Release(|release: &mut Option<Release>, _, _, rng| {
            let release = release.as_mut()?;
            release.sequence = match rng.below(3) {
                0 => release.sequence.wrapping_add(1),
                1 => release.sequence.wrapping_sub(1),
                _ => u64::MAX,
            };
            Some(format!("sequence {}", release.sequence))
        }),
    ),
    ("replay-an-ended-session", Mutation::Again),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{past::Past, rng::Rng};

    #[test]
    fn each_mutation_alters_what_it_can() {
        let mut past = Past::default();
        let release = |word: u8| Release {
            encapsulated: vec![word; 32].into(),
            sequence: u64::from(word),
            ciphertext: vec![word; 40].into(),
        };
        past.keep_release(&[1; 16], &release(1));
        past.keep_release(&[2; 16], &release(2));
        let evidence = |word: u8| EngineEvidence {
            kind: "simulated".to_owned(),
            engine_key: vec![word; 32].into(),
            report: vec![word; 90].into(),
            ..EngineEvidence::default()
        };
        past.evidence.push(evidence(1));
        for (name, mutation) in MUTATIONS {
            for seed in 0..20 {
                let mut rng = Rng::new(seed);
                let changed = match mutation {
                    Mutation::Attest(apply) => {
                        let mut altered = Attest::default();
                        apply(&mut altered, &past, &mut rng).is_some()
                            && altered != Attest::default()
                    }
                    Mutation::Evidence(apply) => {
                        let mut altered = evidence(2);
                        apply(&mut altered, &past, &mut rng).is_some() && altered != evidence(2)
                    }
                    Mutation::Release(apply) => {
                        let mut altered = Some(release(1));
                        apply(&mut altered, &[1; 16], &past, &mut rng).is_some()
                            && altered != Some(release(1))
                    }
                    _ => true,
                };
                assert!(changed, "{name}");
            }
        }
    }
}
