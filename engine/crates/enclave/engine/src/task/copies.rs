//! Stages of a query that would make the same rows twice.
//!
//! Where two read the same exchange, the driver asks for it twice if its rows come out the same
//! each time: then a scan may be narrowed for one of its readers, which it could not be for both
//! ([`super::narrow`]). What nothing narrows is made once.

use super::{descriptor::Descriptor, narrow::Narrowed};

/// By stage: the stage that makes its rows, which is itself or an earlier one that is the same in
/// all. Of stages that only narrow each other nothing is left out: what a stage has, its copy has
/// too.
pub(super) fn made_by(tasks: &[Vec<Descriptor>], narrowed: &mut [Vec<Narrowed>]) -> Vec<usize> {
    let first = |these: &Vec<Descriptor>| tasks.iter().position(|those| are_copies(these, those));
    let firsts: Vec<usize> = tasks
        .iter()
        .zip(0..)
        .map(|(these, at)| first(these).unwrap_or(at))
        .collect();
    resolved(&firsts, narrowed)
}

/// `firsts`: by stage, the first that it is a copy of, or itself.
fn resolved(firsts: &[usize], narrowed: &mut [Vec<Narrowed>]) -> Vec<usize> {
    let first_of = |at: usize| firsts.get(at).copied();
    let narrows_from_without = |(narrowed, first): (&Vec<Narrowed>, &usize)| {
        narrowed
            .iter()
            .any(|one| first_of(one.by.0) != Some(*first))
    };
    let apart: Vec<usize> = narrowed
        .iter()
        .zip(firsts)
        .filter(|one| narrows_from_without(*one))
        .map(|(_, first)| *first)
        .collect();
    let copied = |at: usize, first: usize| {
        firsts
            .iter()
            .zip(0..)
            .any(|(of, other)| *of == first && other != at)
    };
    for ((narrowed, first), at) in narrowed.iter_mut().zip(firsts).zip(0..) {
        if copied(at, *first) && !apart.contains(first) {
            narrowed.clear();
        }
    }
    let same = |at: usize| {
        let alike = |other: &usize| {
            first_of(*other) == first_of(at) && narrowed.get(*other) == narrowed.get(at)
        };
        (0..at).find(alike).unwrap_or(at)
    };
    (0..firsts.len()).map(same).collect()
}

fn are_copies(these: &[Descriptor], those: &[Descriptor]) -> bool {
    these.len() == those.len()
        && !these.is_empty()
        && these
            .iter()
            .zip(those)
            .all(|(this, that)| this.is_copy_of(that))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(stage: usize) -> Vec<Narrowed> {
        vec![Narrowed {
            scan: 7,
            column: 0,
            by: (stage, 0),
        }]
    }

    /// Stages 1 and 3 are copies.
    fn made_by(mut narrowed: [Vec<Narrowed>; 4]) -> (Vec<usize>, [Vec<Narrowed>; 4]) {
        (resolved(&[0, 1, 2, 1], &mut narrowed), narrowed)
    }

    #[test]
    fn what_nothing_narrows_is_made_once() {
        let none = || [vec![], vec![], vec![], vec![]];
        assert_eq!(made_by(none()), (vec![0, 1, 2, 1], none()));
    }

    #[test]
    fn what_a_copy_narrows_it_narrows_not() {
        for narrowed in [
            [vec![], vec![], vec![], by(1)],
            [vec![], by(3), vec![], vec![]],
        ] {
            let (made_by, left) = made_by(narrowed);
            assert_eq!(made_by, [0, 1, 2, 1]);
            assert!(left.iter().all(Vec::is_empty));
        }
        // Others are narrowed by a copy as by any stage.
        let narrowed = [vec![], vec![], by(3), vec![]];
        assert_eq!(made_by(narrowed.clone()), (vec![0, 1, 2, 1], narrowed));
    }

    #[test]
    fn what_another_narrows_is_made_for_itself() {
        for narrowed in [
            [vec![], by(0), vec![], by(1)],
            [vec![], by(0), vec![], vec![]],
            [vec![], vec![], vec![], by(0)],
        ] {
            assert_eq!(made_by(narrowed.clone()), (vec![0, 1, 2, 3], narrowed));
        }
        let same = [vec![], by(0), vec![], by(0)];
        assert_eq!(made_by(same.clone()), (vec![0, 1, 2, 1], same));
    }
}
