//! TPMS_ATTEST with TPMS_QUOTE_INFO (part 2, 10.12).

use super::reader::Reader;

/// TPM_GENERATED_VALUE: only a TPM's own structures begin so under a restricted key.
const GENERATED: u32 = 0xff54_4347;
const ATTEST_QUOTE: u16 = 0x8018;
const SHA256: u16 = 0x000b;
/// Clock, two counters, a flag; firmware's version.
const CLOCK_AND_FIRMWARE: usize = 8 + 4 + 4 + 1 + 8;

/// What a quote says.
pub(super) struct Quote<'a> {
    magic: u32,
    kind: u16,
    pub(super) extra_data: &'a [u8],
    /// The numbers of the quoted PCRs of the SHA-256 bank, in order.
    pub(super) pcrs: Vec<u8>,
    /// SHA-256 over their values.
    pub(super) digest: &'a [u8],
}

impl<'a> Quote<'a> {
    /// None for what is not a quote over the SHA-256 bank alone.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (magic, kind) = (reader.u32()?, reader.u16()?);
        let _signer = reader.sized()?;
        let extra_data = reader.sized()?;
        reader.take(CLOCK_AND_FIRMWARE)?;
        if reader.u32()? != 1 || reader.u16()? != SHA256 {
            return None;
        }
        let length = usize::from(reader.u8()?);
        let mut pcrs = Vec::new();
        for (position, byte) in reader.take(length)?.iter().enumerate() {
            for bit in 0..8_u8 {
                if byte & (1 << bit) != 0 {
                    pcrs.push(u8::try_from(position * 8 + usize::from(bit)).ok()?);
                }
            }
        }
        let digest = reader.sized()?;
        reader.0.is_empty().then_some(Self {
            magic,
            kind,
            extra_data,
            pcrs,
            digest,
        })
    }

    pub(super) fn is_quote(&self) -> bool {
        self.magic == GENERATED && self.kind == ATTEST_QUOTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of no signer and no extra data, over the PCRs that these bytes select.
    fn quote(selected: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(GENERATED.to_be_bytes());
        bytes.extend(ATTEST_QUOTE.to_be_bytes());
        bytes.extend([0; 4 + CLOCK_AND_FIRMWARE]);
        bytes.extend(1_u32.to_be_bytes());
        bytes.extend(SHA256.to_be_bytes());
        bytes.push(u8::try_from(selected.len()).unwrap());
        bytes.extend(selected);
        bytes.extend([0; 2]);
        bytes
    }

    #[test]
    fn pcrs_are_numbered_by_place_and_bit() {
        let selected = quote(&[0b1000_0001, 0, 2]);
        assert_eq!(Quote::parse(&selected).unwrap().pcrs, [0, 7, 17]);
        let mut all = [0; 32];
        all[31] = 0x80;
        assert_eq!(Quote::parse(&quote(&all)).unwrap().pcrs, [255]);
    }

    #[test]
    fn there_is_no_pcr_beyond_255() {
        let mut selected = [0; 33];
        selected[32] = 1;
        assert!(Quote::parse(&quote(&selected)).is_none());
    }
}
