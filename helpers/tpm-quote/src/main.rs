//! `coffer-tpm-quote`: has the machine's TPM quote all PCRs of its SHA-256 bank.
//!
//! `quote` reads 32 bytes of report data on standard input and writes the evidence that
//! `coffer-attest` reads (its module `tpm` says how it is laid out). `ak` prints what a policy
//! pins: the attestation key and the PCRs. The key is a restricted P-256 key, a primary one of the
//! endorsement hierarchy: the TPM makes the same key again each time, and nothing is stored in it.
//! Which TPM is used, TPM2TOOLS_TCTI or TCTI says; else it is /dev/tpmrm0. A program of its own, so
//! that no enclave links the TPM's library.
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

use std::{
    error::Error,
    io::{Read, Write},
    process::ExitCode,
    str::FromStr,
};

use tss_esapi::{
    Context, TctiNameConf,
    attributes::ObjectAttributesBuilder,
    handles::KeyHandle,
    interface_types::{
        algorithm::{HashingAlgorithm, PublicAlgorithm},
        ecc::EccCurve,
        resource_handles::Hierarchy,
    },
    structures::{
        Data, EccPoint, EccScheme, HashScheme, KeyDerivationFunctionScheme, PcrSelectionList,
        PcrSlot, Public, PublicBuilder, PublicEccParametersBuilder, SignatureScheme,
        SymmetricDefinitionObject,
    },
    traits::Marshall,
};

const USAGE: &str = "\
Has the machine's TPM quote its PCRs for coffer-engine

Usage: coffer-tpm-quote quote    32 bytes of report data on standard input, evidence on standard \
output
       coffer-tpm-quote ak       print the attestation key and the PCRs, as a policy pins them
       coffer-tpm-quote public   the attestation key's public area (TPMT_PUBLIC) on standard output

The TPM is that of TPM2TOOLS_TCTI or TCTI, else device:/dev/tpmrm0.";

const MAGIC: &[u8; 8] = b"CFTPMQ01";
const REPORT_DATA: usize = 32;
const DEVICE: &str = "device:/dev/tpmrm0";
/// In order of their numbers.
const SLOTS: [PcrSlot; 24] = [
    PcrSlot::Slot0,
    PcrSlot::Slot1,
    PcrSlot::Slot2,
    PcrSlot::Slot3,
    PcrSlot::Slot4,
    PcrSlot::Slot5,
    PcrSlot::Slot6,
    PcrSlot::Slot7,
    PcrSlot::Slot8,
    PcrSlot::Slot9,
    PcrSlot::Slot10,
    PcrSlot::Slot11,
    PcrSlot::Slot12,
    PcrSlot::Slot13,
    PcrSlot::Slot14,
    PcrSlot::Slot15,
    PcrSlot::Slot16,
    PcrSlot::Slot17,
    PcrSlot::Slot18,
    PcrSlot::Slot19,
    PcrSlot::Slot20,
    PcrSlot::Slot21,
    PcrSlot::Slot22,
    PcrSlot::Slot23,
];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["quote"] => quote(),
        ["ak"] => show(),
        ["public"] => public(),
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("error: unknown arguments\nhint: coffer-tpm-quote --help");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: the TPM made no quote: {error}");
            eprintln!(
                "hint: the engine's user needs rights to /dev/tpmrm0, or TCTI must name another TPM"
            );
            ExitCode::FAILURE
        }
    }
}

/// A TPM, and its attestation key.
struct Tpm {
    context: Context,
    key: KeyHandle,
    public: Vec<u8>,
}

/// One PCR: its number and its value.
type Pcr = (u8, Vec<u8>);

impl Tpm {
    fn open() -> Outcome<Self> {
        let named = TctiNameConf::from_environment_variable();
        let tcti = match std::env::var_os("TPM2TOOLS_TCTI").or(std::env::var_os("TCTI")) {
            Some(_) => named?,
            None => TctiNameConf::from_str(DEVICE)?,
        };
        let mut context = Context::new(tcti)?;
        let made = context.execute_with_nullauth_session(|context| {
            context.create_primary(Hierarchy::Endorsement, template()?, None, None, None, None)
        })?;
        Ok(Self {
            public: made.out_public.marshall()?,
            key: made.key_handle,
            context,
        })
    }

    /// Few values fit one answer of a TPM.
    fn pcrs(&mut self) -> Outcome<Vec<Pcr>> {
        let mut pcrs = Vec::new();
        for (number, slot) in (0_u8..).zip(SLOTS) {
            let (_, _, values) = self.context.pcr_read(selection(&[slot])?)?;
            let value = values
                .value()
                .first()
                .ok_or("the TPM has no SHA-256 bank of PCRs")?;
            pcrs.push((number, value.to_vec()));
        }
        Ok(pcrs)
    }
}

impl Drop for Tpm {
    fn drop(&mut self) {
        // A TPM without a resource manager has room for three keys.
        let _ = self.context.flush_context(self.key.into());
    }
}

fn selection(slots: &[PcrSlot]) -> tss_esapi::Result<PcrSelectionList> {
    PcrSelectionList::builder()
        .with_selection(HashingAlgorithm::Sha256, slots)
        .build()
}

/// A key that signs nothing but what the TPM made itself.
fn template() -> tss_esapi::Result<Public> {
    let attributes = ObjectAttributesBuilder::new()
        .with_fixed_tpm(true)
        .with_fixed_parent(true)
        .with_sensitive_data_origin(true)
        .with_user_with_auth(true)
        .with_no_da(true)
        .with_restricted(true)
        .with_sign_encrypt(true)
        .build()?;
    let parameters = PublicEccParametersBuilder::new()
        .with_symmetric(SymmetricDefinitionObject::Null)
        .with_ecc_scheme(EccScheme::EcDsa(HashScheme::new(HashingAlgorithm::Sha256)))
        .with_curve(EccCurve::NistP256)
        .with_key_derivation_function_scheme(KeyDerivationFunctionScheme::Null)
        .with_is_signing_key(true)
        .with_is_decryption_key(false)
        .with_restricted(true)
        .build()?;
    PublicBuilder::new()
        .with_public_algorithm(PublicAlgorithm::Ecc)
        .with_name_hashing_algorithm(HashingAlgorithm::Sha256)
        .with_object_attributes(attributes)
        .with_ecc_parameters(parameters)
        .with_ecc_unique_identifier(EccPoint::default())
        .build()
}

fn quote() -> Outcome<()> {
    let mut report_data = Vec::new();
    std::io::stdin().take(64).read_to_end(&mut report_data)?;
    if report_data.len() != REPORT_DATA {
        return Err(format!(
            "{} bytes of report data, not {REPORT_DATA}",
            report_data.len()
        )
        .into());
    }
    let mut tpm = Tpm::open()?;
    let pcrs = tpm.pcrs()?;
    let (key, data) = (tpm.key, Data::try_from(report_data)?);
    let (quote, signature) = tpm.context.execute_with_nullauth_session(|context| {
        context.quote(key, data, SignatureScheme::Null, selection(&SLOTS)?)
    })?;
    let values: Vec<u8> = pcrs
        .into_iter()
        .flat_map(|(number, value)| [vec![number], value].concat())
        .collect();
    let mut evidence = MAGIC.to_vec();
    for part in [
        tpm.public.clone(),
        quote.marshall()?,
        signature.marshall()?,
        values,
    ] {
        evidence.extend(u32::try_from(part.len())?.to_be_bytes());
        evidence.extend(part);
    }
    std::io::stdout().write_all(&evidence)?;
    Ok(())
}

fn show() -> Outcome<()> {
    let mut tpm = Tpm::open()?;
    let pcrs = tpm.pcrs()?;
    let name = ring::digest::digest(&ring::digest::SHA256, &tpm.public);
    println!(
        "[attestation.tpm]\nak = [\"{}\"]\n\n[attestation.tpm.pcrs]",
        hex::encode(name.as_ref())
    );
    for (number, value) in pcrs {
        println!("{number} = [\"{}\"]", hex::encode(value));
    }
    Ok(())
}

fn public() -> Outcome<()> {
    let tpm = Tpm::open()?;
    std::io::stdout().write_all(&tpm.public)?;
    Ok(())
}
