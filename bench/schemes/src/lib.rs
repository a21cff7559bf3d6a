//! `paillier`: the additively homomorphic encryption of Paillier, "Public-Key Cryptosystems Based
//! on Composite Degree Residuosity Classes" (EUROCRYPT 1999, section 4, with its section 7's
//! decryption by Chinese remainders), with N of 3,072 bits. **Slow**, by four orders of magnitude
//! beside `ashe`, and 768 bytes for each value: it is here to be compared with, and no policy names
//! it. A crate of its own, so that its big-number library is none of an enclave's; the program that
//! times all schemes lives here too.
//!
//! What it has over `ashe`: a sum is one number, whichever rows it took, and 2^1000 of them do not
//! overflow. Nothing is authenticated, but what no key holder made opens to an error, all but
//! surely.
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::as_conversions
    )
)]

use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{Array, ArrayRef, BinaryArray, cast::AsArray};
use arrow_schema::DataType;
use coffer_schemes::{ColumnSpec, Ordinals, RowPositions, Scheme, SchemeError, SumOpening};
use coffer_sealing::fill_random;
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{NonZero, Odd, U1536, U3072, U6144};
use zeroize::{Zeroize, Zeroizing};

const NAME: &str = "paillier";
const PRIME_LEN: usize = 192;
const MODULUS_LEN: usize = 2 * PRIME_LEN;
/// Bytes of a stored value.
pub const STORED_LEN: usize = 2 * MODULUS_LEN;

type Square = FixedMontyForm<{ U3072::LIMBS }>;
type SquareParams = FixedMontyParams<{ U3072::LIMBS }>;
type Sealed = FixedMontyForm<{ U6144::LIMBS }>;
type SealedParams = FixedMontyParams<{ U6144::LIMBS }>;

/// Paillier encryption of a column by the owner, who has the primes.
pub struct Paillier {
    ordinals: Ordinals,
    modulus: U3072,
    p: Half,
    q: Half,
    /// 1 / p² modulo q².
    joint: Square,
}

/// What an engine without keys adds with: the modulus.
pub struct PaillierPublic(SealedParams);

/// The arithmetic modulo the square of one of the two primes.
struct Half {
    prime: U1536,
    odd: NonZero<U1536>,
    square: SquareParams,
    whole: NonZero<U3072>,
    /// −1 / (the other prime), modulo this one.
    inverse: FixedMontyForm<{ U1536::LIMBS }>,
}

impl Drop for Half {
    fn drop(&mut self) {
        self.prime.zeroize();
        self.square.zeroize();
    }
}

/// The two primes, which make the key. Zeroed on drop, without `Debug` or `==`.
#[derive(Clone)]
pub struct PaillierKey(Zeroizing<Vec<u8>>);

impl Paillier {
    /// Two random primes of 1,536 bits; takes about a second.
    pub fn generate_key() -> Result<PaillierKey, SchemeError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(MODULUS_LEN));
        while bytes.len() < MODULUS_LEN {
            let mut candidate = Zeroizing::new([0; PRIME_LEN]);
            fill_random(candidate.as_mut_slice())?;
            // The two highest bits set, so that N has all of its bits; odd.
            if let [first, .., last] = candidate.as_mut_slice() {
                *first |= 0xc0;
                *last |= 1;
            }
            let mut number = U1536::from_be_slice(candidate.as_slice());
            if crypto_primes::is_prime(crypto_primes::Flavor::Any, &number) {
                bytes.extend_from_slice(candidate.as_slice());
            }
            number.zeroize();
        }
        Ok(PaillierKey(bytes))
    }

    /// With a key of [`Paillier::generate_key`].
    pub fn new(key: &PaillierKey, column: &ColumnSpec) -> Result<Self, SchemeError> {
        let bad = || SchemeError::BadKey { scheme: NAME };
        let (p, q) = key.0.split_first_chunk::<PRIME_LEN>().ok_or_else(bad)?;
        let q: &[u8; PRIME_LEN] = q.try_into().map_err(|_| bad())?;
        let (p, q) = (U1536::from_be_slice(p), U1536::from_be_slice(q));
        let modulus = product(&p, &q);
        let (left, right) = (Half::new(p, &q)?, Half::new(q, &p)?);
        let square = product(&p, &p).rem(&right.whole);
        let joint = Option::from(Square::new(&square, &right.square).invert()).ok_or_else(bad)?;
        Ok(Self {
            ordinals: Ordinals::new(NAME, column)?,
            modulus,
            p: left,
            q: right,
            joint,
        })
    }

    /// What engines add with: it is no secret.
    pub fn public(&self) -> Result<PaillierPublic, SchemeError> {
        PaillierPublic::from_bytes(self.modulus.to_be_bytes().as_ref())
    }

    /// Opens the sum of `count` values; none for no value.
    pub fn open_sum(&self, sum: &[u8], count: u64) -> Result<Option<SumOpening>, SchemeError> {
        if count == 0 {
            return Ok(None);
        }
        let overflow = || SchemeError::Malformed("a sum of impossibly many rows");
        let distances = self.open(sum)?.ok_or(SchemeError::Unauthentic { row: 0 })?;
        let start = i128::from(count)
            .checked_mul(self.ordinals.min())
            .ok_or_else(overflow)?;
        let sum = start.checked_add_unsigned(distances).ok_or_else(overflow)?;
        Ok(Some(SumOpening { sum, count }))
    }

    /// (1 + m N) r^N modulo N², put together from its remainders modulo p² and q².
    fn seal(&self, message: u128) -> Result<U6144, SchemeError> {
        let (p, q) = (
            self.p.seal(message, &self.modulus)?,
            self.q.seal(message, &self.modulus)?,
        );
        let p_in_q = Square::new(&p.rem(&self.q.whole), &self.q.square);
        let steps = (Square::new(&q, &self.q.square) - p_in_q) * self.joint;
        let square = product(&self.p.prime, &self.p.prime);
        let step: U6144 = square.concatenating_mul(&steps.retrieve());
        Ok(step.wrapping_add(&p.resize()))
    }

    /// None for what is no ciphertext of a small number.
    fn open(&self, sealed: &[u8]) -> Result<Option<u128>, SchemeError> {
        if sealed.len() != STORED_LEN {
            return Ok(None);
        }
        let sealed = U6144::from_be_slice(sealed);
        // The message is far smaller than the primes: both remainders are the message.
        let (p, q) = (self.p.open(&sealed)?, self.q.open(&sealed)?);
        let bytes = p.to_be_bytes();
        let (head, tail) = bytes
            .as_ref()
            .split_last_chunk::<16>()
            .ok_or(SchemeError::Internal("paillier"))?;
        let small = head.iter().all(|byte| *byte == 0) && p == q;
        Ok(small.then(|| u128::from_be_bytes(*tail)))
    }
}

impl Half {
    fn new(prime: U1536, other: &U1536) -> Result<Self, SchemeError> {
        let bad = || SchemeError::BadKey { scheme: NAME };
        let odd: Odd<U1536> = Option::from(Odd::new(prime)).ok_or_else(bad)?;
        let nonzero: NonZero<U1536> = Option::from(NonZero::new(prime)).ok_or_else(bad)?;
        let square = product(&prime, &prime);
        let other = FixedMontyForm::new(&other.rem(&nonzero), &FixedMontyParams::new(odd));
        let inverse: FixedMontyForm<{ U1536::LIMBS }> =
            Option::from(other.invert()).ok_or_else(bad)?;
        Ok(Self {
            prime,
            odd: nonzero,
            square: SquareParams::new(Option::from(Odd::new(square)).ok_or_else(bad)?),
            whole: Option::from(NonZero::new(square)).ok_or_else(bad)?,
            inverse: -inverse,
        })
    }

    /// The ciphertext modulo this square. r^N for a uniform r is there a uniform element of order
    /// dividing p − 1, which is x^p for a uniform x: half the exponent.
    fn seal(&self, message: u128, modulus: &U3072) -> Result<U3072, SchemeError> {
        let mut bytes = Zeroizing::new([0; MODULUS_LEN]);
        fill_random(bytes.as_mut_slice())?;
        let x = U3072::from_be_slice(bytes.as_slice()).rem(&self.whole);
        let blind = Square::new(&x, &self.square).pow(&self.prime);
        let message = Square::new(&U3072::from(message), &self.square);
        let factor = Square::new(&modulus.rem(&self.whole), &self.square);
        let open = message * factor + Square::one(&self.square);
        Ok((open * blind).retrieve())
    }

    /// The message modulo this prime: L(c^(p − 1) mod p²) / L((1 + N)^(p − 1) mod p²), with L(u) =
    /// (u − 1) / p.
    fn open(&self, sealed: &U6144) -> Result<U1536, SchemeError> {
        let exponent = self.prime.wrapping_sub(&U1536::ONE);
        let power = Square::new(&sealed.rem(&self.whole), &self.square)
            .pow(&exponent)
            .retrieve();
        let quotient = power.wrapping_sub(&U3072::ONE).div_rem(&self.odd).0;
        let quotient = quotient.rem(&self.odd);
        Ok((FixedMontyForm::new(&quotient, self.inverse.params()) * self.inverse).retrieve())
    }
}

impl PaillierPublic {
    /// From the modulus, 384 bytes big-endian.
    pub fn from_bytes(modulus: &[u8]) -> Result<Self, SchemeError> {
        let bad = || SchemeError::BadKey { scheme: NAME };
        if modulus.len() != MODULUS_LEN {
            return Err(bad());
        }
        let modulus = U3072::from_be_slice(modulus);
        let square: U6144 = modulus.concatenating_mul(&modulus);
        let square: Odd<U6144> = Option::from(Odd::new(square)).ok_or_else(bad)?;
        Ok(Self(SealedParams::new_vartime(square)))
    }

    /// The sum of a stored column, and how many values it is of.
    pub fn sum(&self, column: &BinaryArray) -> Result<(Vec<u8>, u64), SchemeError> {
        let mut sum = Sealed::one(&self.0);
        let mut count = 0_u64;
        for (row, value) in column.iter().enumerate() {
            let Some(value) = value else { continue };
            if value.len() != STORED_LEN {
                return Err(SchemeError::Unauthentic { row });
            }
            sum *= &Sealed::new(&U6144::from_be_slice(value), &self.0);
            count = count.saturating_add(1);
        }
        Ok((sum.retrieve().to_be_bytes().as_ref().to_vec(), count))
    }
}

fn product(left: &U1536, right: &U1536) -> U3072 {
    left.concatenating_mul(right)
}

impl Scheme for Paillier {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stored_type(&self) -> DataType {
        DataType::Binary
    }

    fn encrypt(
        &self,
        column: &dyn Array,
        _positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        let most = column.len().saturating_mul(STORED_LEN);
        if i32::try_from(most).is_err() {
            return Err(SchemeError::Malformed(
                "a batch of more than 2 GiB in one column",
            ));
        }
        let mut out = BinaryBuilder::with_capacity(column.len(), most);
        for (row, distance) in self.ordinals.of(column)?.into_iter().enumerate() {
            if column.is_null(row) {
                out.append_null();
            } else {
                out.append_value(self.seal(distance)?.to_be_bytes());
            }
        }
        Ok(Arc::new(out.finish()))
    }

    fn decrypt(
        &self,
        stored: &dyn Array,
        _positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        let array = stored
            .as_binary_opt::<i32>()
            .ok_or_else(|| SchemeError::WrongType {
                wanted: DataType::Binary,
                found: stored.data_type().clone(),
            })?;
        let mut ordinals = Vec::with_capacity(array.len());
        for (row, value) in array.iter().enumerate() {
            let Some(value) = value else {
                ordinals.push(0);
                continue;
            };
            let opened = self
                .open(value)?
                .filter(|ordinal| *ordinal < self.ordinals.size());
            ordinals.push(opened.ok_or(SchemeError::Unauthentic { row })?);
        }
        self.ordinals
            .restore(ordinals.into_iter(), array.nulls().cloned())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use arrow_array::{Decimal128Array, Int64Array};

    use super::*;

    static KEY: LazyLock<PaillierKey> = LazyLock::new(|| Paillier::generate_key().unwrap());

    fn paillier(data_type: DataType) -> Paillier {
        Paillier::new(&KEY, &ColumnSpec::new(data_type)).unwrap()
    }

    #[test]
    fn values_come_back_and_equal_ones_differ() {
        let columns: [ArrayRef; 2] = [
            Arc::new(Int64Array::from(vec![
                Some(i64::MIN),
                None,
                Some(i64::MAX),
                Some(i64::MAX),
            ])),
            Arc::new(
                Decimal128Array::from(vec![Some(-(10_i128.pow(38) - 1)), Some(0)])
                    .with_precision_and_scale(38, 3)
                    .unwrap(),
            ),
        ];
        for column in columns {
            let scheme = paillier(column.data_type().clone());
            let stored = scheme.encrypt(&column, RowPositions::Anywhere).unwrap();
            assert_eq!(
                &scheme.decrypt(&stored, RowPositions::Anywhere).unwrap(),
                &column
            );
            let stored = stored.as_binary::<i32>();
            assert_ne!(
                stored.value(stored.len() - 1),
                stored.value(stored.len() - 2)
            );
        }
    }

    #[test]
    fn sums() {
        let scheme = paillier(DataType::Int64);
        let column = Int64Array::from(vec![
            Some(i64::MAX),
            None,
            Some(i64::MAX),
            Some(-5),
            Some(12),
        ]);
        let stored = scheme.encrypt(&column, RowPositions::Anywhere).unwrap();
        let (sum, count) = scheme.public().unwrap().sum(stored.as_binary()).unwrap();
        let expected = SumOpening {
            sum: 2 * i128::from(i64::MAX) + 7,
            count: 4,
        };
        assert_eq!(scheme.open_sum(&sum, count).unwrap(), Some(expected));
        assert_eq!(scheme.open_sum(&sum, 0).unwrap(), None);
    }

    #[test]
    fn foreign_values_are_named() {
        let scheme = paillier(DataType::Int64);
        let stored = scheme
            .encrypt(&Int64Array::from(vec![1, 2, 3]), RowPositions::Anywhere)
            .unwrap();
        for bit in [9, 3_000, 6_143] {
            let mut values: Vec<Vec<u8>> = stored
                .as_binary::<i32>()
                .iter()
                .flatten()
                .map(<[u8]>::to_vec)
                .collect();
            values[1][bit / 8] ^= 1 << (bit % 8);
            let altered = BinaryArray::from_iter_values(values);
            let error = scheme
                .decrypt(&altered, RowPositions::Anywhere)
                .unwrap_err();
            assert!(
                matches!(error, SchemeError::Unauthentic { row: 1 }),
                "{error}"
            );
        }
        assert!(
            Paillier::new(
                &PaillierKey(Zeroizing::new(vec![7; 32])),
                &ColumnSpec::new(DataType::Int64)
            )
            .is_err()
        );
        assert!(
            Paillier::new(
                &PaillierKey(Zeroizing::new(vec![0; 384])),
                &ColumnSpec::new(DataType::Int64)
            )
            .is_err()
        );
    }
}
