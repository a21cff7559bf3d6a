//! AES-SIV (RFC 5297): S2V over AES-CMAC (RFC 4493), then AES-CTR under the synthetic IV.
//!
//! Not the `aes-siv` crate, since that expands the keys and hashes the associated data anew for
//! each value: see docs/reference/schemes.md for the figures. The tests compare the two and take
//! RFC 5297's vectors.

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::SchemeError;
use crate::aes::{Aes, BLOCK, Keystream};

type Block = [u8; BLOCK];

/// Bytes that a ciphertext is longer than its plaintext: the synthetic IV in front.
pub(crate) const SIV_LEN: usize = BLOCK;

/// A key with its associated data: both the same for a whole column.
pub(crate) struct Siv {
    mac: Aes,
    /// For the counters of many short values at once.
    counters: Aes,
    keystream: Keystream,
    /// CMAC's subkeys.
    whole: Block,
    padded: Block,
    /// S2V's sum before the plaintext comes.
    associated: Block,
}

impl Siv {
    /// `mac_key` and `ctr_key` are the halves of RFC 5297's key, 16 or 32 bytes each.
    pub(crate) fn new(
        mac_key: &[u8],
        ctr_key: &[u8],
        associated: &[&[u8]],
    ) -> Result<Self, SchemeError> {
        let mac = Aes::new(mac_key)?;
        let whole = double(mac.block([0; BLOCK])?);
        let mut siv = Self {
            mac,
            counters: Aes::new(ctr_key)?,
            keystream: Keystream::new(ctr_key)?,
            whole,
            padded: double(whole),
            associated: [0; BLOCK],
        };
        let mut sum = siv.cmac(&[0; BLOCK])?;
        for part in associated {
            sum = xor(double(sum), siv.cmac(part)?);
        }
        siv.associated = sum;
        Ok(siv)
    }

    /// Appends synthetic IV and ciphertext of `plaintext` to `out`.
    pub(crate) fn seal(&self, plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), SchemeError> {
        let iv = self.s2v(plaintext)?;
        out.extend_from_slice(&iv);
        let start = out.len();
        out.extend_from_slice(plaintext);
        let body = out.get_mut(start..).unwrap_or_default();
        self.keystream.apply(counter(iv), body)
    }

    /// Appends the plaintext of `sealed` to `out`; `false`, and nothing appended, if it is not
    /// authentic.
    pub(crate) fn open(&self, sealed: &[u8], out: &mut Vec<u8>) -> Result<bool, SchemeError> {
        let Some((iv, body)) = sealed.split_first_chunk::<SIV_LEN>() else {
            return Ok(false);
        };
        let start = out.len();
        out.extend_from_slice(body);
        let plaintext = out.get_mut(start..).unwrap_or_default();
        self.keystream.apply(counter(*iv), plaintext)?;
        let good = verify_slices_are_equal(&self.s2v(plaintext)?, iv).is_ok();
        if !good {
            out.truncate(start);
        }
        Ok(good)
    }

    /// Seals values of `width` ≤ 15 bytes that lie one behind the other: two AES blocks for each,
    /// many at a time.
    pub(crate) fn seal_short(
        &self,
        width: usize,
        plaintexts: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SchemeError> {
        let mut ivs = self.short_ivs(width, plaintexts)?;
        let tags = ivs.clone();
        self.keystreams(&mut ivs)?;
        let streams = ivs.as_chunks::<BLOCK>().0;
        for ((plain, iv), stream) in plaintexts
            .chunks_exact(width)
            .zip(tags.as_chunks::<BLOCK>().0)
            .zip(streams)
        {
            out.extend_from_slice(iv);
            out.extend(plain.iter().zip(stream).map(|(p, s)| p ^ s));
        }
        Ok(())
    }

    /// Opens what [`Siv::seal_short`] made; gives the plaintexts and the place of the first that is
    /// not authentic.
    pub(crate) fn open_short(
        &self,
        width: usize,
        sealed: &[u8],
    ) -> Result<(Vec<u8>, Option<usize>), SchemeError> {
        let each = SIV_LEN.saturating_add(width);
        let parts = || {
            sealed
                .chunks_exact(each)
                .filter_map(|value| value.split_first_chunk::<SIV_LEN>())
        };
        let mut streams: Vec<u8> = parts().flat_map(|(iv, _)| *iv).collect();
        self.keystreams(&mut streams)?;
        let mut plaintexts = Vec::with_capacity(sealed.len());
        for ((_, body), stream) in parts().zip(streams.as_chunks::<BLOCK>().0) {
            plaintexts.extend(body.iter().zip(stream).map(|(b, s)| b ^ s));
        }
        let ivs = self.short_ivs(width, &plaintexts)?;
        let bad = parts()
            .zip(ivs.as_chunks::<BLOCK>().0)
            .position(|((found, _), made)| verify_slices_are_equal(found, made).is_err());
        Ok((plaintexts, bad))
    }

    /// S2V of values shorter than a block: T = dbl(D) ⊕ pad(P), and CMAC of one whole block.
    fn short_ivs(&self, width: usize, plaintexts: &[u8]) -> Result<Vec<u8>, SchemeError> {
        let start = xor(double(self.associated), self.whole);
        let mut blocks =
            Vec::with_capacity((plaintexts.len() / width.max(1)).saturating_mul(BLOCK));
        for plain in plaintexts.chunks_exact(width) {
            blocks.extend_from_slice(&xor(start, pad(plain)));
        }
        self.mac.blocks(&mut blocks)?;
        Ok(blocks)
    }

    /// Turns synthetic IVs into the first block of their keystream.
    fn keystreams(&self, ivs: &mut [u8]) -> Result<(), SchemeError> {
        for iv in ivs.as_chunks_mut::<BLOCK>().0 {
            *iv = counter(*iv);
        }
        self.counters.blocks(ivs)
    }

    /// RFC 5297, section 2.4, from the sum over the associated data on.
    fn s2v(&self, plaintext: &[u8]) -> Result<Block, SchemeError> {
        match plaintext
            .len()
            .checked_sub(BLOCK)
            .and_then(|at| plaintext.split_at_checked(at))
        {
            // "xorend": the sum goes into the last 16 bytes.
            Some((head, tail)) => {
                let mut message = zeroize::Zeroizing::new(Vec::with_capacity(plaintext.len()));
                message.extend_from_slice(head);
                message.extend(tail.iter().zip(self.associated).map(|(t, a)| t ^ a));
                self.cmac(&message)
            }
            None => self.cmac(&xor(double(self.associated), pad(plaintext))),
        }
    }

    /// AES-CMAC, RFC 4493, section 2.4.
    fn cmac(&self, message: &[u8]) -> Result<Block, SchemeError> {
        let whole = message.len().saturating_sub(1) / BLOCK;
        let (head, last) = message
            .split_at_checked(whole.saturating_mul(BLOCK))
            .unwrap_or((message, &[]));
        let mut state = [0; BLOCK];
        for block in head.as_chunks::<BLOCK>().0 {
            state = self.mac.block(xor(state, *block))?;
        }
        let last = match <&Block>::try_from(last) {
            Ok(block) => xor(*block, self.whole),
            Err(_) => xor(pad(last), self.padded),
        };
        self.mac.block(xor(state, last))
    }
}

/// Multiplication by x in GF(2^128), RFC 5297, section 2.3; no branch on the secret bit.
fn double(block: Block) -> Block {
    let number = u128::from_be_bytes(block);
    let carry = (number >> 127).wrapping_neg() & 0x87;
    ((number << 1) ^ carry).to_be_bytes()
}

fn xor(left: Block, right: Block) -> Block {
    (u128::from_be_bytes(left) ^ u128::from_be_bytes(right)).to_be_bytes()
}

/// A one bit, then zeros, after fewer than 16 bytes.
fn pad(bytes: &[u8]) -> Block {
    let mut block = [0; BLOCK];
    for (to, from) in block.iter_mut().zip(bytes.iter().chain(&[0x80])) {
        *to = *from;
    }
    block
}

/// RFC 5297, section 2.5: bits 31 and 63 of the IV are cleared, so that a counter of 32 or 64 bits
/// does not overflow.
fn counter(iv: Block) -> Block {
    let clear = !((1_u128 << 63) | (1_u128 << 31));
    (u128::from_be_bytes(iv) & clear).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        hex::decode(text.replace(char::is_whitespace, "")).unwrap()
    }

    /// RFC 5297, A.1: deterministic authenticated encryption.
    #[test]
    fn rfc_5297_a_1() {
        let siv = Siv::new(
            &hex("fffefdfc fbfaf9f8 f7f6f5f4 f3f2f1f0"),
            &hex("f0f1f2f3 f4f5f6f7 f8f9fafb fcfdfeff"),
            &[&hex(
                "10111213 14151617 18191a1b 1c1d1e1f 20212223 24252627",
            )],
        )
        .unwrap();
        let plaintext = hex("11223344 55667788 99aabbcc ddee");
        let expected = hex("85632d07 c6e8f37f 950acd32 0a2ecc93 40c02b96 90c4dc04 daef7f6a fe5c");
        check(&siv, &plaintext, &expected);
        let mut short = Vec::new();
        siv.seal_short(plaintext.len(), &plaintext, &mut short)
            .unwrap();
        assert_eq!(short, expected);
        assert_eq!(
            siv.open_short(plaintext.len(), &short).unwrap(),
            (plaintext, None)
        );
    }

    /// RFC 5297, A.2: nonce-based, with several associated strings.
    #[test]
    fn rfc_5297_a_2() {
        let siv = Siv::new(
            &hex("7f7e7d7c 7b7a7978 77767574 73727170"),
            &hex("40414243 44454647 48494a4b 4c4d4e4f"),
            &[
                &hex(
                    "00112233 44556677 8899aabb ccddeeff deaddada deaddada ffeeddcc bbaa9988 \
                    77665544 33221100",
                ),
                &hex("10203040 50607080 90a0"),
                &hex("09f91102 9d74e35b d84156c5 635688c0"),
            ],
        )
        .unwrap();
        let plaintext = hex(
            "74686973 20697320 736f6d65 20706c61 696e7465 78742074 6f20656e 63727970 74207573 \
                696e6720 5349562d 414553",
        );
        let expected = hex(
            "7bdb6e3b 432667eb 06f4d14b ff2fbd0f cb900f2f ddbe4043 26601965 c889bf17 dba77ceb \
                094fa663 b7a3f748 ba8af829
             ea64ad54 4a272e9c 485b62a3 fd5c0d",
        );
        check(&siv, &plaintext, &expected);
    }

    /// AES-256, for which the RFC has no vectors: made with the crate aes-siv 0.8.0.
    #[test]
    fn keys_of_512_bits() {
        let key: Vec<u8> = (0..64).collect();
        let siv = Siv::new(&key[..32], &key[32..], &[b"link group", b"Int64"]).unwrap();
        for (plaintext, expected) in [
            ("", "8d472eea50e203c0fa5fb6bab27a7988"),
            (
                "8 bytes.",
                "10402265b733602ec3e6100fffde1b69bbca1cd131776eb4",
            ),
            (
                "sixteen bytes ok",
                "ce25d5c44d186a1fba4d940d36ce980b6f27a985ae9597a0479e90f58846a25c",
            ),
            (
                "a plaintext of more than two blocks of AES",
                "de237745c325047f7b6f2df9fd35820859c3dbe2d0b34a81779eb6224d9523f6
                 e4f6fd0a81acaa9a65305598729370e960f0353e2d72670fc62d",
            ),
        ] {
            check(&siv, plaintext.as_bytes(), &hex(expected));
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let siv = Siv::new(&[1; 32], &[2; 32], &[b"group"]).unwrap();
        for length in [0, 1, 8, 15, 16, 17, 40] {
            let mut sealed = Vec::new();
            siv.seal(&vec![7; length], &mut sealed).unwrap();
            for bit in 0..sealed.len() * 8 {
                let mut bad = sealed.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    !siv.open(&bad, &mut Vec::new()).unwrap(),
                    "length {length}, bit {bit}"
                );
            }
            assert!(
                !siv.open(&sealed[..sealed.len() - 1], &mut Vec::new())
                    .unwrap()
            );
        }
    }

    #[test]
    fn short_values_are_sealed_as_long_ones() {
        let siv = Siv::new(&[1; 32], &[2; 32], &[b"group"]).unwrap();
        let values: Vec<u8> = (0..80).collect();
        let (mut one, mut many) = (Vec::new(), Vec::new());
        values
            .chunks(8)
            .for_each(|value| siv.seal(value, &mut one).unwrap());
        siv.seal_short(8, &values, &mut many).unwrap();
        assert_eq!(one, many);
        many[24 * 3 + 20] ^= 1;
        assert_eq!(siv.open_short(8, &many).unwrap().1, Some(3));
    }

    fn check(siv: &Siv, plaintext: &[u8], expected: &[u8]) {
        let (mut sealed, mut opened) = (Vec::new(), Vec::new());
        siv.seal(plaintext, &mut sealed).unwrap();
        assert_eq!(sealed, expected);
        assert!(siv.open(&sealed, &mut opened).unwrap());
        assert_eq!(opened, plaintext);
    }
}
