/// Kinds of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvidenceKind {
    Simulated,
    Sgx,
    Tdx,
    SevSnp,
    Tpm,
}
impl EvidenceKind {
    const ALL: [Self; 5] = [Self::Simulated, Self::Sgx, Self::Tdx, Self::SevSnp, Self::Tpm];
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Sgx => "sgx",
            Self::Tdx => "tdx",
            Self::SevSnp => "sev-snp",
            Self::Tpm => "tpm",
        }
    }
    pub fn is_supported(self) -> bool {
        self == Self::Simulated
    }
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }
}
