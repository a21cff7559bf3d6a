//! What changed between two texts, line by line, for people: lines with `-` went, lines with `+`
//! came.

/// Lines that are shown around a change.
const CONTEXT: usize = 2;
/// Beyond so many pairs of lines, what lies between the first and the last change is shown as
/// replaced.
const MAX_PAIRS: usize = 4 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Same,
    Gone,
    New,
}

/// The difference, empty if there is none. At most `most` lines of it. Characters that steer a
/// terminal are escaped, so that no line hides another.
pub(super) fn difference(before: &str, after: &str, most: usize) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (lines(before), lines(after));
    let head = before
        .iter()
        .zip(&after)
        .take_while(|(a, b)| a == b)
        .count();
    let (old, new) = (rest(&before, head), rest(&after, head));
    let tail = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (old, new) = (first(old, old.len() - tail), first(new, new.len() - tail));
    let mut lines: Vec<(Mark, &str)> = first(&before, head)
        .iter()
        .map(|line| (Mark::Same, *line))
        .collect();
    lines.extend(middle(old, new));
    lines.extend(
        rest(&before, before.len() - tail)
            .iter()
            .map(|line| (Mark::Same, *line)),
    );
    shown(&lines, most)
}

/// With their ends: one that ends otherwise is another.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn rest<'a, 'b>(lines: &'a [&'b str], from: usize) -> &'a [&'b str] {
    lines.get(from..).unwrap_or_default()
}

fn first<'a, 'b>(lines: &'a [&'b str], count: usize) -> &'a [&'b str] {
    lines.get(..count).unwrap_or_default()
}

/// By the longest common subsequence.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Mark, &'a str)> {
    let mut lines = Vec::new();
    if old.len().saturating_mul(new.len()) > MAX_PAIRS {
        lines.extend(old.iter().map(|line| (Mark::Gone, *line)));
        lines.extend(new.iter().map(|line| (Mark::New, *line)));
        return lines;
    }
    // common[i][j]: the length for what is left from old[i] and new[j] on.
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    let at = |common: &[u32], i: usize, j: usize| common.get(i * width + j).copied().unwrap_or(0);
    for (i, gone) in old.iter().enumerate().rev() {
        for (j, came) in new.iter().enumerate().rev() {
            let length = match gone == came {
                true => at(&common, i + 1, j + 1) + 1,
                false => at(&common, i + 1, j).max(at(&common, i, j + 1)),
            };
            if let Some(cell) = common.get_mut(i * width + j) {
                *cell = length;
            }
        }
    }
    let (mut i, mut j) = (0, 0);
    loop {
        match (old.get(i), new.get(j)) {
            (Some(gone), Some(came)) if gone == came => {
                lines.push((Mark::Same, *gone));
                (i, j) = (i + 1, j + 1);
            }
            (Some(gone), came)
                if came.is_none() || at(&common, i + 1, j) >= at(&common, i, j + 1) =>
            {
                lines.push((Mark::Gone, *gone));
                i += 1;
            }
            (_, Some(came)) => {
                lines.push((Mark::New, *came));
                j += 1;
            }
            (_, None) => return lines,
        }
    }
}

fn shown(lines: &[(Mark, &str)], most: usize) -> String {
    let near = |at: usize| {
        let around = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(lines.len());
        let mut around = lines.get(around).unwrap_or_default().iter();
        around.any(|(mark, _)| *mark != Mark::Same)
    };
    let wanted: Vec<usize> = (0..lines.len()).filter(|at| near(*at)).collect();
    let mut text = String::new();
    let mut last = None;
    for at in wanted.iter().take(most) {
        if last.is_some_and(|last: usize| last + 1 != *at) {
            text.push_str("  …\n");
        }
        last = Some(*at);
        if let Some((mark, line)) = lines.get(*at) {
            text.push_str(match mark {
                Mark::Same => "  ",
                Mark::Gone => "- ",
                Mark::New => "+ ",
            });
            push_escaped(&mut text, line.strip_suffix('\n').unwrap_or(line));
            text.push_str(match line.ends_with('\n') {
                true => "\n",
                false => " (no end of line)\n",
            });
        }
    }
    if wanted.len() > most {
        text.push_str(&format!("  … and {} more lines\n", wanted.len() - most));
    }
    text
}

fn push_escaped(text: &mut String, line: &str) {
    for c in line.chars() {
        let steers = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' |
            '\u{2060}'..='\u{206f}' | '\u{feff}');
        if (c.is_control() && c != '\t') || steers {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn says_what_went_and_what_came() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        assert_eq!(difference(before, before, 99), "");
        assert_eq!(difference("", "x\n", 99), "+ x\n");
        assert_eq!(difference("x\n", "", 99), "- x\n");
        let after = "a\nb\nc\nX\ne\nf\ng\nh\ni\n";
        assert_eq!(
            difference(before, after, 99),
            "  b\n  c\n- d\n+ X\n  e\n  f\n  g\n  h\n+ i\n"
        );
        let far = "A\nb\nc\nd\ne\nf\ng\nH\n";
        assert_eq!(
            difference(before, far, 99),
            "- a\n+ A\n  b\n  c\n  …\n  f\n  g\n- h\n+ H\n"
        );
        assert_eq!(
            difference("", "1\n2\n3\n", 2),
            "+ 1\n+ 2\n  … and 1 more lines\n"
        );
        assert_eq!(difference("x\n", "x", 9), "- x\n+ x (no end of line)\n");
        assert_eq!(difference("x\n", "x\r\n", 9), "- x\n+ x\\r\n");
    }

    #[test]
    fn nothing_hides_in_a_line() {
        assert_eq!(
            difference("", "a\rb\u{202e}c\x1b[2K\n", 9),
            "+ a\\rb\\u{202e}c\\u{1b}[2K\n"
        );
    }
}
