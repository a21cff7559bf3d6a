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
        for (number, byte) in (0_u8..).step_by(8).zip(reader.take(length)?) {
            for bit in 0..8_u8 {
                if byte & (1 << bit) != 0 {
                    pcrs.push(number.checked_add(bit)?);
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
