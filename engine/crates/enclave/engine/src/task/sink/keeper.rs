//! Where the rows of an exchange go that stay in the engine ([`crate::exchange`]).

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use crate::{
    enclave::Enclave,
    exchange::{Exchanges, Kept, Room, Rows, WrittenBy},
    session::Session,
};

/// Keeps what one task writes, as long as there is room for it.
pub(crate) struct Keeper {
    exchanges: Arc<Exchanges>,
    by: WrittenBy,
    schema: SchemaRef,
    room: Room,
    pool: Arc<dyn MemoryPool>,
}

impl Keeper {
    /// `schema` is the boundary's.
    pub(crate) fn new(
        enclave: &Enclave,
        session: &Session,
        by: WrittenBy,
        schema: SchemaRef,
        room: Room,
    ) -> Self {
        Self {
            exchanges: Arc::clone(&session.exchanges),
            by,
            schema,
            room,
            pool: Arc::clone(&enclave.runtime().memory_pool),
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// So many bytes more, if there is room for them.
    pub(crate) fn claim(&mut self, bytes: usize) -> bool {
        self.room.claim(bytes)
    }

    /// Gives back what was claimed.
    pub(crate) fn release(&mut self) {
        self.room.release();
    }

    /// Enters the rows, by target. What they take of the pool is theirs from now on; as they cannot
    /// spill, they have no part in what is shared out among those that can.
    pub(crate) fn keep(self, targets: Vec<Vec<RecordBatch>>, counted: &mut MemoryReservation) {
        self.enter(Rows::Held(targets), counted);
    }

    /// Enters rows that were spilled.
    pub(crate) fn enter(self, rows: Rows, counted: &mut MemoryReservation) {
        let held = MemoryConsumer::new("kept exchange").register(&self.pool);
        held.grow(counted.free());
        self.exchanges
            .keep(self.by, Kept::new(self.schema, rows, self.room, held));
    }
}
