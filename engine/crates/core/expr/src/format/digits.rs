//! Decimal digits with their exponent, between what finds them and what writes them.

use std::fmt::Write;

/// Java's buffer for a double.
const MOST: usize = 26;

/// `d.ddd × 10^exponent`.
#[derive(Clone)]
pub(crate) struct Digits {
    digits: [u8; MOST],
    length: usize,
    pub(crate) exponent: i32,
}

impl Digits {
    /// None yet.
    pub(crate) fn new(exponent: i32) -> Self {
        Self {
            digits: [0; MOST],
            length: 0,
            exponent,
        }
    }

    /// One more behind the others.
    pub(crate) fn push(&mut self, digit: u8) {
        if let Some(position) = self.digits.get_mut(self.length) {
            *position = digit;
            self.length += 1;
        }
    }

    pub(crate) fn last(&self) -> u8 {
        self.all().last().copied().unwrap_or(0)
    }

    /// One more in the last place. Nines become zeros, and stay.
    pub(crate) fn round_up(&mut self) {
        let digits = self.digits.get_mut(..self.length).unwrap_or_default();
        for position in digits.iter_mut().rev() {
            if *position < 9 {
                *position += 1;
                return;
            }
            *position = 0;
        }
        if let Some(first) = digits.first_mut() {
            *first = 1;
        }
        self.exponent += 1;
    }

    /// Behind the point.
    pub(crate) fn positions(&self) -> usize {
        self.length.saturating_sub(1)
    }

    /// One less in the last place, where that is odd.
    pub(crate) fn even_neighbour(&self) -> Option<Self> {
        let mut even = self.clone();
        let last = even.digits.get_mut(..self.length)?.last_mut()?;
        *last = last.checked_sub(1).filter(|digit| digit % 2 == 0)?;
        Some(even)
    }

    /// Whether they are the same.
    pub(crate) fn is(&self, digits: &Self) -> bool {
        self.exponent == digits.exponent && self.all() == digits.all()
    }

    /// `2.0` has one digit.
    pub(crate) fn without_last_zero(&mut self) {
        if self.length == 2 && self.last() == 0 {
            self.length = 1;
        }
    }

    fn all(&self) -> &[u8] {
        self.digits.get(..self.length).unwrap_or_default()
    }

    fn text(&self) -> String {
        self.all()
            .iter()
            .map(|digit| char::from(b'0' + digit))
            .collect()
    }

    /// In Java's notation.
    pub(crate) fn java(&self, out: &mut String) {
        let text = self.text();
        if (-3..7).contains(&self.exponent) {
            point(&text, self.exponent, out);
        } else {
            point(&text, 0, out);
            let _ = write!(out, "E{}", self.exponent);
        }
    }

    /// Written out with so many digits behind the point, rounded half up.
    pub(crate) fn fixed(&self, places: usize) -> String {
        let whole = usize::try_from(self.exponent + 1).unwrap_or(0);
        let zeros = usize::try_from(-1 - self.exponent).unwrap_or(0);
        // The first one is for what is carried.
        let mut digits = vec![0u8; zeros + 1 + usize::from(whole == 0)];
        digits.extend(self.all());
        let whole = whole.max(1) + 1;
        digits.resize(digits.len().max(whole + places + 1), 0);
        let up = digits.get(whole + places).is_some_and(|next| *next >= 5);
        digits.truncate(whole + places);
        if up {
            for digit in digits.iter_mut().rev() {
                *digit = (*digit + 1) % 10;
                if *digit > 0 {
                    break;
                }
            }
        }
        let mut out = String::new();
        for (at, digit) in digits.iter().enumerate() {
            if at == whole {
                out.push('.');
            }
            if at > 0 || *digit > 0 {
                out.push(char::from(b'0' + digit));
            }
        }
        out
    }

    /// With an exponent: `8.41e21`.
    pub(crate) fn scientific(&self) -> String {
        let mut out = String::new();
        point(&self.text(), 0, &mut out);
        let _ = write!(out, "e{}", self.exponent);
        out
    }
}

/// `d.ddd × 10^exponent` written out, with at least one digit on each side of the point.
fn point(digits: &str, exponent: i32, out: &mut String) {
    if exponent < 0 {
        out.push_str("0.");
        (1..-exponent).for_each(|_| out.push('0'));
        out.push_str(digits);
        return;
    }
    let whole = usize::try_from(exponent).unwrap_or(0) + 1;
    let padded = format!("{digits:0<whole$}");
    let (before, after) = padded.split_at(whole);
    out.push_str(before);
    out.push('.');
    out.push_str(if after.is_empty() { "0" } else { after });
}
