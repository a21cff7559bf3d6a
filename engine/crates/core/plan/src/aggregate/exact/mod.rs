//! Sums of doubles without rounding: whatever the order and grouping of the rows, and however often
//! partial sums were sent or spilled, the same rows give the same bits. Only the result is rounded,
//! once, to the nearest double (ties to even).
//!
//! Two doubles hold nearly every sum that occurs (Dekker 1971, Knuth's TwoSum); one that does not
//! fit becomes an integer of as many digits as it takes ([`Digits`], as in Neal, *Fast exact
//! summation using small and large superaccumulators*, 2015).

mod digits;

use datafusion_common::Result;
pub(super) use digits::{Digits, Rounded};

/// Below this, neither a sum of two doubles nor a step on the way to it overflows.
const LIMIT: f64 = 1.071_508_607_186_267_3e301; // 2^1000

/// Squares of numbers between these are exact as two doubles.
const SQUARES: std::ops::Range<f64> = 1e-130..1e130;

/// Whole numbers below this are doubles: 2^53.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// The sum of the doubles that were added; or of none.
#[derive(Clone, Debug)]
pub(super) struct ExactSum {
    /// −0.0: nothing was added. (A sum of zeros is 0.0, as Spark's, which begins with 0.0.) Not
    /// finite: it is the sum, unless there are `digits`: then it is NaN, so that adding takes the
    /// slow path.
    head: f64,
    /// The sum is `head` + `tail`, exactly.
    tail: f64,
    digits: Option<Box<Digits>>,
}

impl Default for ExactSum {
    fn default() -> Self {
        Self {
            head: -0.0,
            tail: 0.0,
            digits: None,
        }
    }
}

/// The rounded sum, and what rounding took: `a + b` is their sum. Not for sums that overflow.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// The rounded square, and what rounding took (Veltkamp's split, Dekker's product).
fn two_square(a: f64) -> (f64, f64) {
    let square = a * a;
    let big = 134_217_729.0 * a; // 2^27 + 1
    let high = big - (big - a);
    let low = a - high;
    (
        square,
        ((high * high - square) + 2.0 * high * low) + low * low,
    )
}

/// The high half of a number's digits, and the rest (Veltkamp).
fn split(a: f64) -> (f64, f64) {
    let big = 134_217_729.0 * a; // 2^27 + 1
    let high = big - (big - a);
    (high, a - high)
}

/// The rounded product, and what rounding took (Dekker).
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    let ((a_high, a_low), (b_high, b_low)) = (split(a), split(b));
    let rest = a_high * b_high - product + a_high * b_low + a_low * b_high + a_low * b_low;
    (product, rest)
}

impl ExactSum {
    pub(super) fn is_empty(&self) -> bool {
        self.digits.is_none() && self.head == 0.0 && self.head.is_sign_negative()
    }

    /// Bytes beside the struct itself.
    pub(super) fn memory(&self) -> usize {
        self.digits.as_ref().map_or(0, |digits| digits.memory())
    }

    /// Adds a number. `grown`: by how many bytes it has grown beside the struct itself.
    #[inline]
    pub(super) fn add(&mut self, value: f64, grown: &mut isize) {
        let (head, rest) = two_sum(self.head, value);
        let in_range = head.abs() < LIMIT; // NaN is not
        if !in_range {
            return self.add_slowly(value, grown);
        }
        // Whole numbers, mostly.
        if rest != 0.0 {
            let (tail, lost) = two_sum(self.tail, rest);
            if lost != 0.0 {
                return self.add_slowly(value, grown);
            }
            self.tail = tail;
        }
        // −0.0 becomes 0.0.
        self.head = head + 0.0;
    }

    #[cold]
    fn add_slowly(&mut self, value: f64, grown: &mut isize) {
        if !value.is_finite() {
            return self.add_special(value, grown);
        }
        if let Some(digits) = &mut self.digits {
            let before = digits.memory();
            digits.add(value);
            *grown += difference(digits.memory(), before);
        } else if self.head.is_finite() {
            let mut digits = Digits::default();
            digits.add(self.head);
            digits.add(self.tail);
            digits.add(value);
            self.hold(digits, grown);
        }
    }

    fn hold(&mut self, digits: Digits, grown: &mut isize) {
        *grown += difference(digits.memory(), self.memory());
        *self = Self {
            head: f64::NAN,
            tail: 0.0,
            digits: Some(Box::new(digits)),
        };
    }

    /// Infinities and NaN stay, whatever else is added; of both infinities it is NaN, as a sum in
    /// any order is.
    fn add_special(&mut self, value: f64, grown: &mut isize) {
        *grown -= difference(self.memory(), 0);
        let head = match (
            self.digits.is_none() && !self.head.is_finite(),
            value.is_nan(),
        ) {
            (_, true) => f64::NAN,
            (true, false) if self.head != value => f64::NAN,
            _ => value,
        };
        *self = Self {
            head,
            tail: 0.0,
            digits: None,
        };
    }

    /// Adds the square of a number, exactly.
    #[inline]
    pub(super) fn add_square(&mut self, value: f64, grown: &mut isize) {
        if value == 0.0 || SQUARES.contains(&value.abs()) {
            let (square, rest) = two_square(value);
            self.add(square, grown);
            if rest != 0.0 {
                self.add(rest, grown);
            }
        } else {
            self.add_square_slowly(value, grown);
        }
    }

    #[cold]
    fn add_square_slowly(&mut self, value: f64, grown: &mut isize) {
        if !value.is_finite() {
            return self.add_special(value * value, grown);
        }
        if self.digits.is_none() && !self.head.is_finite() {
            return;
        }
        let mut digits = self.digits();
        digits.add_square(value);
        self.hold(digits, grown);
    }

    /// Adds the product of two numbers, exactly.
    #[inline]
    pub(super) fn add_product(&mut self, a: f64, b: f64, grown: &mut isize) {
        let exact = |value: f64| value == 0.0 || SQUARES.contains(&value.abs());
        if exact(a) && exact(b) {
            let (product, rest) = two_product(a, b);
            self.add(product, grown);
            if rest != 0.0 {
                self.add(rest, grown);
            }
        } else {
            self.add_product_slowly(a, b, grown);
        }
    }

    #[cold]
    fn add_product_slowly(&mut self, a: f64, b: f64, grown: &mut isize) {
        if !a.is_finite() || !b.is_finite() {
            return self.add_special(a * b, grown);
        }
        if self.digits.is_none() && !self.head.is_finite() {
            return;
        }
        let [a, b] = [a, b].map(|value| {
            let mut digits = Digits::default();
            digits.add(value);
            digits
        });
        let mut digits = self.digits();
        digits.merge(&a.times(&b));
        self.hold(digits, grown);
    }

    /// Adds the product of numbers, exactly.
    pub(super) fn add_product_of(&mut self, factors: &[f64], grown: &mut isize) {
        // Whole numbers whose product is one: a product below 2^53 was not rounded on the way.
        let product: f64 = factors.iter().product();
        if product.abs() < WHOLE && factors.iter().all(|factor| factor.trunc() == *factor) {
            return self.add(product, grown);
        }
        // A product of what is not finite and others is such, or NaN.
        if factors.iter().any(|factor| !factor.is_finite()) {
            return self.add_special(product, grown);
        }
        if self.digits.is_none() && !self.head.is_finite() {
            return;
        }
        let mut product = Digits::default();
        product.add(1.0);
        for factor in factors {
            let mut digits = Digits::default();
            digits.add(*factor);
            product = product.times(&digits);
        }
        let mut digits = self.digits();
        digits.merge(&product);
        self.hold(digits, grown);
    }

    /// Adds another sum.
    pub(super) fn merge(&mut self, other: &Self, grown: &mut isize) {
        match &other.digits {
            None if other.is_empty() => {}
            None => {
                self.add(other.head, grown);
                if other.head.is_finite() {
                    self.add(other.tail, grown);
                }
            }
            Some(_) if self.digits.is_none() && !self.head.is_finite() => {}
            Some(more) => {
                let mut digits = self.digits();
                digits.merge(more);
                self.hold(digits, grown);
            }
        }
    }

    /// The sum as digits, if it is finite.
    pub(super) fn finite(&self) -> Option<Digits> {
        (self.digits.is_some() || self.head.is_finite()).then(|| self.digits())
    }

    fn digits(&self) -> Digits {
        match &self.digits {
            Some(digits) => digits.as_ref().clone(),
            None => {
                let mut digits = Digits::default();
                digits.add(self.head);
                digits.add(self.tail);
                digits
            }
        }
    }

    /// The sum, rounded; of nothing 0.0.
    pub(super) fn rounded(&self) -> f64 {
        match &self.digits {
            Some(digits) => digits.rounded(),
            None if self.head.is_finite() => self.head + self.tail + 0.0,
            None => self.head,
        }
    }

    /// The one encoding of the sum, which depends on its value alone: 8 bytes where it is a double,
    /// 16 where it is two, else digits. NULL, which the caller has a place for, is none of them.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        let (head, tail) = match &self.digits {
            Some(digits) => match digits.as_pair() {
                Some(pair) => pair,
                None => return digits.encode(out),
            },
            None if self.head.is_finite() => two_sum(self.head, self.tail),
            None => (self.head, 0.0),
        };
        out.extend_from_slice(&(head + 0.0).to_le_bytes());
        if tail != 0.0 {
            out.extend_from_slice(&tail.to_le_bytes());
        }
    }

    /// Adds a sum that [`Self::encode`] wrote.
    #[inline]
    pub(super) fn merge_encoded(&mut self, bytes: &[u8], grown: &mut isize) -> Result<()> {
        match bytes.len() {
            8 | 16 => {
                let mut parts = bytes
                    .chunks_exact(8)
                    .filter_map(|part| part.try_into().ok());
                let mut next = || parts.next().map(f64::from_le_bytes);
                if let Some(head) = next() {
                    self.add(head, grown);
                }
                if let Some(tail) = next() {
                    self.add(tail, grown);
                }
                Ok(())
            }
            _ => {
                let more = Digits::decode(bytes)?;
                let other = Self {
                    head: f64::NAN,
                    tail: 0.0,
                    digits: Some(Box::new(more)),
                };
                self.merge(&other, grown);
                Ok(())
            }
        }
    }
}

fn difference(now: usize, before: usize) -> isize {
    let signed = |bytes: usize| isize::try_from(bytes).unwrap_or(isize::MAX);
    signed(now).saturating_sub(signed(before))
}

#[cfg(test)]
mod tests;
