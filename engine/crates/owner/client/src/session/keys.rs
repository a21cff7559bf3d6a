//! The keys that engines need for a session, and the generation that they are.

use coffer_sealing::KekSet;

/// Grows with the query's stages.
pub(crate) struct Keys {
    keks: KekSet,
    /// Grows with the KEKs: an engine that has an older one needs another release.
    generation: u32,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            keks: KekSet::new(),
            generation: 1,
        }
    }
}

impl Keys {
    /// Adds KEKs that the query needs from now on.
    pub(crate) fn need(&mut self, keks: &KekSet) {
        if keks.iter().any(|kek| !self.keks.contains(&kek.id())) {
            self.keks.extend(keks);
            self.generation += 1;
        }
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(super) fn all(&self) -> &KekSet {
        &self.keks
    }
}
