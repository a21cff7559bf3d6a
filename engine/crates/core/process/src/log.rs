//! What a process says to operators: lines on standard error, with no value of a query in them.
//!
//! Two variables of the environment say how: `COFFER_LOG`, which lines (directives of
//! `tracing-subscriber`; `info` by default), and `COFFER_LOG_FORMAT`, `text` (default) or `json`:
//! an object a line, which or whose `spans` have the field `query` where it is about a query.

use std::fmt::Write;

use tracing_subscriber::EnvFilter;

/// Of a session's identity, so many bytes are its name in logs: all that an honest one has.
const NAME_BYTES: usize = 16;

/// Begins to log. What is not known of the environment's wishes is the default.
pub fn start() {
    let filter = EnvFilter::try_from_env("COFFER_LOG").unwrap_or_else(|_| "info".into());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match std::env::var("COFFER_LOG_FORMAT") {
        Ok(format) if format == "json" => lines.json().flatten_event(true).init(),
        _ => lines.init(),
    }
}

/// A query's name in the logs of all processes, and in the audit log: its session in hexadecimal
/// digits.
pub fn query(session: &[u8]) -> String {
    let mut name = String::with_capacity(2 * NAME_BYTES);
    for byte in session.iter().take(NAME_BYTES) {
        // A String takes all that is written to it.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_named_by_its_session() {
        assert_eq!(query(&[0x0a, 0xff]), "0aff");
        assert_eq!(query(&[1; 99]), "01".repeat(16));
    }
}
