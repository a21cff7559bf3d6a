//! A text looked for in all rows of a column at once.
//!
//! The bytes of a string column lie one row after the other: one search runs over all of them, at
//! the speed of memory, and what it finds is a row's if it lies within it. Row by row, short texts
//! cost more to begin with than to search.

use arrow::{
    array::{Array, BooleanArray, StringArray},
    buffer::BooleanBuffer,
};
use memchr::memmem::Finder;

use super::Texts;

/// Per row, whether it holds the text, which is not empty, and whether `rest` is true of the bytes
/// after its first occurrence.
pub(super) fn holds(
    texts: &Texts,
    rows: usize,
    part: &Finder<'_>,
    rest: impl Fn(&[u8]) -> bool,
) -> BooleanArray {
    match texts {
        Texts::Array(column) => in_column(column, part, rest),
        Texts::One(text) => {
            let found = text
                .as_ref()
                .map(|text| in_row(text.as_bytes(), part, &rest));
            (0..rows).map(|_| found).collect()
        }
    }
}

fn in_row(text: &[u8], part: &Finder<'_>, rest: impl Fn(&[u8]) -> bool) -> bool {
    part.find(text)
        .and_then(|at| text.get(at + part.needle().len()..))
        .is_some_and(rest)
}

fn in_column(
    column: &StringArray,
    part: &Finder<'_>,
    rest: impl Fn(&[u8]) -> bool,
) -> BooleanArray {
    let bytes = column.value_data();
    let mut found = vec![false; column.len()];
    let mut ends = column
        .value_offsets()
        .iter()
        .skip(1)
        .map(|end| usize::try_from(*end).unwrap_or(usize::MAX));
    let mut rows = found.iter_mut();
    let mut at = column
        .value_offsets()
        .first()
        .map_or(0, |first| usize::try_from(*first).unwrap_or(usize::MAX));
    let (mut row, mut end) = (rows.next(), ends.next().unwrap_or(at));
    let last = column
        .value_offsets()
        .last()
        .map_or(0, |last| usize::try_from(*last).unwrap_or(0));
    while let Some(start) = bytes
        .get(at..last)
        .and_then(|left| part.find(left))
        .map(|start| at + start)
    {
        while end <= start {
            let Some(next) = ends.next() else {
                break;
            };
            (row, end) = (rows.next(), next);
        }
        let after = start + part.needle().len();
        match (bytes.get(after..end), &mut row) {
            (Some(left), Some(row)) => {
                **row = rest(left);
                at = end;
            }
            // It begins in one row and ends in another.
            _ => at = start + 1,
        }
    }
    BooleanArray::new(BooleanBuffer::from(found), column.nulls().cloned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Texts of few letters, so that most of them hold the part, and many of them across the
        /// end of a row.
        #[test]
        fn finds_what_a_search_of_each_row_finds(
            texts in prop::collection::vec(prop::option::of("[ab]{0,6}"), 0..40),
            part in "[ab]{1,3}",
            tail in "[ab]{0,2}",
            from in 0usize..10,
        ) {
            let whole: StringArray = texts.iter().map(Option::as_deref).collect();
            let column = whole.slice(from.min(whole.len()), whole.len() - from.min(whole.len()));
            let finder = Finder::new(&part);
            let found = holds(&Texts::Array(column.clone()), column.len(), &finder, |rest| {
                std::str::from_utf8(rest).unwrap().contains(&tail)
            });
            let each: BooleanArray = column
                .iter()
                .map(|text|
                    text.map(|text|
                        text.split_once(&part).is_some_and(|(_, rest)| rest.contains(&tail))))
                .collect();
            prop_assert_eq!(found, each);
        }
    }

    #[test]
    fn one_text_for_all_rows() {
        let finder = Finder::new("b");
        let found = holds(&Texts::One(Some("abc".to_owned())), 3, &finder, |_| true);
        assert_eq!(found, BooleanArray::from(vec![true; 3]));
        assert_eq!(
            holds(&Texts::One(None), 2, &finder, |_| true).null_count(),
            2
        );
    }
}
