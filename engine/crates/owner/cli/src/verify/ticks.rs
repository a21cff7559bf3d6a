//! A report of checks, each with a tick, a cross, or a question mark.

use serde_json::{Value, json};

use crate::{
    audit::escaped,
    failure::{Exit, Failure},
};

/// One line of the report. `None`: it cannot be told.
struct Tick {
    name: &'static str,
    passed: Option<bool>,
    found: String,
}

#[derive(Default)]
pub(super) struct Ticks(Vec<Tick>);

impl Ticks {
    pub(super) fn note(
        &mut self,
        name: &'static str,
        passed: impl Into<Option<bool>>,
        found: String,
    ) {
        let passed = passed.into();
        self.0.push(Tick {
            name,
            passed,
            found,
        });
    }

    fn any(&self, passed: Option<bool>) -> bool {
        self.0.iter().any(|tick| tick.passed == passed)
    }

    /// Whether no check failed.
    pub(super) fn holds(&self) -> bool {
        !self.any(Some(false))
    }

    pub(super) fn json(&self) -> Value {
        let checks = self
            .0
            .iter()
            .map(|tick| json!({ "name": tick.name, "passed": tick.passed, "found": tick.found }));
        checks.collect()
    }

    pub(super) fn print(&self) {
        for tick in &self.0 {
            let mark = match tick.passed {
                Some(true) => "✓",
                Some(false) => "✗",
                None => "?",
            };
            println!("{mark} {:<10} {}", tick.name, escaped(&tick.found));
        }
    }

    /// `what`: of what the checks are.
    pub(super) fn verdict(&self, what: &str) -> Result<(), Failure> {
        if !self.holds() {
            return Err(Failure::new(Exit::Check, format!("{what} does not hold")));
        }
        if self.any(None) {
            return Err(Failure::new(
                Exit::Warnings,
                "what is marked with ? cannot be told",
            ));
        }
        Ok(())
    }
}
