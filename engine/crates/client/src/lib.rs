//! The client engine: sessions, sealing of stages, opening of results, on the trusted site
