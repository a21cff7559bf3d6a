//! The part of a plan that runs here, at the client site, as one partition: over rows that engines
//! sent to the client and, where it opens stored columns, with the tables' keys; and over tables
//! that are read here.

use std::{collections::HashMap, sync::Arc};

use coffer_protocol::{
    plan::Fragment,
    wire::{ResultKept, RunAtClient},
};
use coffer_sealing::KekSet;
use prost::Message;

use crate::{
    ClientError, Service,
    origins::Origins,
    reads::{Read, Reads},
    receipts,
    result::ResultRows,
    run::{Keys, Limits, decrypted, fits, inputs, run, scans, schema_of},
    session::Rows,
    table::Opened,
    uses::Uses,
};

/// In errors: no stage, but what runs here. (The plugin numbers stages from 1.)
const AT_CLIENT: u32 = 0;

impl Service {
    pub(crate) fn run_at_client(&self, request: &RunAtClient) -> Result<ResultRows, ClientError> {
        let fragment = Fragment::decode(request.fragment.clone())
            .map_err(|_| ClientError::Malformed("fragment"))?;
        self.may_decrypt(&fragment)?;
        let shared = self.session(&request.session)?;
        let mut session = shared.lock();
        let mut found = HashMap::new();
        let mut origins = match request.values {
            true => session.origins_here()?,
            false => Origins::default(),
        };
        for input in inputs(&fragment) {
            let from = request
                .inputs
                .iter()
                .find(|from| from.input_id == input.input_id);
            let kept = from.ok_or(ClientError::Malformed("fragment"))?.kept;
            let rows = match kept {
                0 => Rows {
                    schema: schema_of(input)?,
                    streams: Vec::new(),
                    origins: Origins::default(),
                },
                kept => session.results.kept(kept)?,
            };
            origins.merge(AT_CLIENT, &rows.origins)?;
            if !fits(input, &rows.schema)? || found.insert(input.input_id, rows).is_some() {
                return Err(ClientError::Malformed("fragment"));
            }
        }
        // What is read here comes to later stages as values and rows of the driver's.
        for scan in &request.scans {
            session.opened_host_chosen |= self.table(scan.handle)?.is_host_chosen();
        }
        let query = session.query.clone();
        drop(session);
        let mut uses = Uses::default();
        let reads = self.reads(request, &fragment, &mut uses)?;
        let mut tables = HashMap::new();
        for column in decrypted(&fragment) {
            let table = self.table(column.handle)?;
            uses.read(&table, [column.stored.as_str()], &KekSet::new());
            tables.insert(column.handle, table);
        }
        if !uses.is_empty() {
            let mut session = shared.lock();
            session.uses_here.absorb(&uses);
            if let Some(draft) = &mut session.receipt {
                draft.reads_here(&uses);
            }
            drop(session);
            self.audit_client(query, uses)?;
        }
        let rows = run(
            &fragment,
            found,
            reads,
            Some(Arc::new(Keys(tables))),
            Some(Limits {
                bytes: request.read_bytes,
                spills: &self.spills,
            }),
        )?;
        let keeps = request.keep_bytes > 0;
        let rows = receipts::at_client(rows, &shared, &request.fragment, keeps);
        Ok(ResultRows { origins, ..rows })
    }

    /// Keeps rows for a later part of the plan; at most so many bytes of them.
    pub(crate) async fn keep_rows(
        &self,
        session: &[u8],
        mut rows: ResultRows,
        most: u64,
    ) -> Result<ResultKept, ClientError> {
        let mut batches = Vec::new();
        let (mut count, mut bytes) = (0_u64, 0_u64);
        while let Some(batch) = rows.next().await? {
            count += batch.num_rows() as u64;
            bytes = bytes.saturating_add(batch.get_array_memory_size() as u64);
            if bytes > most {
                return Err(ClientError::TooMuchAtClient(most));
            }
            batches.push(batch);
        }
        let session = self.session(session)?;
        let mut session = session.lock();
        let kept = session.results.keep(Rows {
            schema: rows.schema,
            streams: vec![batches],
            origins: rows.origins,
        });
        Ok(ResultKept {
            kept,
            rows: count,
            bytes,
        })
    }

    /// What the scans of a fragment read: each of a sealed table that was opened here, whole.
    /// Unverified inputs are for engines: this process can read what the account that asks cannot.
    fn reads(
        &self,
        request: &RunAtClient,
        fragment: &Fragment,
        uses: &mut Uses,
    ) -> Result<Reads, ClientError> {
        let whole = fragment
            .hiding
            .as_ref()
            .is_some_and(|hiding| hiding.read_all);
        let mut reads = HashMap::new();
        for scan in scans(fragment) {
            let asked = request
                .scans
                .iter()
                .find(|asked| asked.scan_id == scan.scan_id);
            let asked = asked.ok_or(ClientError::Malformed("fragment"))?;
            let table = self.table(asked.handle)?;
            let Opened::Sealed(sealed) = table.as_ref() else {
                return Err(ClientError::PlainAtClient);
            };
            let columns = scan.schema.iter().flat_map(|schema| &schema.fields);
            let columns: Vec<String> = columns.map(|field| field.name.clone()).collect();
            self.may_read(&table, columns.iter().map(String::as_str))?;
            let most = (request.read_bytes, whole);
            let reach = self.config_dir.reach();
            let read = Read::new(&table, sealed, scan, &columns, most, reach)?;
            uses.read(&table, columns.iter().map(String::as_str), &read.files.keys);
            if reads.insert(scan.scan_id, read).is_some() {
                return Err(ClientError::Malformed("fragment"));
            }
        }
        Ok(Reads(reads))
    }
}
