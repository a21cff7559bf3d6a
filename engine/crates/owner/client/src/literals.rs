//! Literals of a query as ciphertexts of the columns they are compared with.

use std::{collections::HashSet, time::Instant};

use coffer_audit::{Event, TableUse};
use coffer_catalog::{Codec, Error};
use coffer_expr::scalar;
use coffer_format::Error as FormatError;
use coffer_protocol::{
    plan::{Literal, literal::Value},
    wire::{
        EncryptLiterals, LiteralsEncrypted,
        literals_encrypted::{Ciphertext, ciphertext::Kind},
    },
};
use coffer_schemes::{Capability, SchemeError, Side};
use coffer_sealing::sha256;
use datafusion_common::ScalarValue;
use prost::Message;

use crate::{ClientError, Service, table::Opened, types::data_type};

impl Service {
    /// Writes down what is encrypted for whom, before it is; errors when it is more than the policy
    /// lets a user have in a day.
    fn grant_literals(
        &self,
        table: &Opened,
        codec: &Codec,
        at: usize,
        literals: &[Literal],
    ) -> Result<(), ClientError> {
        let (Opened::Sealed(sealed), Some(stored)) = (table, codec.stored().get(at)) else {
            return Ok(());
        };
        if !stored.encoding.is_linked() {
            return Ok(());
        }
        let column = table
            .column_of(&stored.name())
            .unwrap_or_default()
            .to_owned();
        let link = stored.link.map(|link| link.to_string());
        let key = match &link {
            Some(link) => link.clone(),
            None => format!("{} {column}", sealed.manifest().table),
        };
        let asked: HashSet<[u8; 32]> = literals
            .iter()
            .map(|literal| sha256(&literal.encode_to_vec()))
            .collect();
        let mut guesses = self.guesses.lock();
        let news = guesses.news(&key, &asked, Instant::now());
        if news.is_empty() {
            return Ok(());
        }
        let total = guesses.count(&key).saturating_add(news.len());
        let most = self.policy_now()?.literals_per_day();
        if self.user.is_some() && u32::try_from(total).map_or(true, |total| total > most) {
            return Err(ClientError::TooManyLiterals {
                user: self.user(),
                column: format!("{}.{column}", sealed.name()),
                most,
            });
        }
        let event = Event::granted("encrypt literals")
            .table(TableUse {
                name: sealed.name().to_owned(),
                id: sealed.manifest().table.to_string(),
                version: sealed.manifest().version,
                columns: vec![column],
                ..TableUse::default()
            })
            .detail("literals", news.len().to_string())
            .detail("in all", total.to_string());
        self.audit_granted(match link {
            Some(link) => event.detail("link", link),
            None => event,
        })?;
        guesses.note(&key, news);
        Ok(())
    }

    pub(crate) fn encrypt_literals(
        &self,
        request: &EncryptLiterals,
    ) -> Result<LiteralsEncrypted, ClientError> {
        let table = self.table(request.handle)?;
        self.may_read(&table, [request.stored.as_str()])?;
        let (codec, at) = table.codec_of(&request.stored)?;
        self.grant_literals(&table, &codec, at, &request.literals)?;
        let ciphertexts = request
            .literals
            .iter()
            .map(|literal| encrypt(&codec, at, literal))
            .collect::<Result<_, ClientError>>()?;
        Ok(LiteralsEncrypted { ciphertexts })
    }
}

fn encrypt(codec: &Codec, at: usize, literal: &Literal) -> Result<Ciphertext, ClientError> {
    let stored = codec
        .stored()
        .get(at)
        .ok_or(ClientError::Malformed("ENCRYPT_LITERALS"))?;
    let name = stored.name();
    let scalar = scalar(literal).map_err(|source| ClientError::Literal {
        stored: name.clone(),
        reason: source.to_string(),
    })?;
    let refused = |reason: &str| ClientError::Literal {
        stored: name.clone(),
        reason: reason.to_owned(),
    };
    let column = codec
        .column_of(stored)
        .ok_or_else(|| refused("it holds no column"))?;
    if scalar.data_type() != column.kind.to_arrow() {
        return Err(refused("the literal has another type than the column"));
    }
    if scalar.is_null() {
        return Err(refused("NULL is not encrypted"));
    }
    if stored.allows(Capability::Everything) {
        return Ok(of(Kind::Literal(literal.clone()), false));
    }
    if !stored.encoding.is_linked() {
        return Err(refused("its values depend on where they are"));
    }
    // A stored value may have the same leading bytes and then more.
    let prefix = stored
        .prefix
        .and_then(|prefix| usize::try_from(prefix).ok());
    let cut = prefix.is_some_and(|prefix| length(&scalar) >= prefix);
    let array = scalar.to_array().map_err(ClientError::Finish)?;
    let encrypted = match codec.encrypt(at, &array) {
        Ok(encrypted) => encrypted,
        Err(Error::Format(FormatError::Scheme {
            source: SchemeError::OutsideDomain { side, .. },
            ..
        })) => {
            let side = match side {
                Side::Below => Kind::Below(true),
                Side::Above => Kind::Above(true),
            };
            return Ok(of(side, false));
        }
        Err(error) => return Err(error.into()),
    };
    let value = match ScalarValue::try_from_array(&encrypted, 0).map_err(ClientError::Finish)? {
        ScalarValue::Int64(Some(value)) => Value::Int(value),
        ScalarValue::Binary(Some(value)) => Value::Binary(value),
        _ => return Err(refused("its ciphertexts are of no type that a literal has")),
    };
    let literal = Literal {
        r#type: Some(data_type(&stored.kind)),
        value: Some(value),
    };
    Ok(of(Kind::Literal(literal), cut))
}

fn of(kind: Kind, cut: bool) -> Ciphertext {
    Ciphertext {
        kind: Some(kind),
        cut,
    }
}

/// Bytes of a text.
fn length(scalar: &ScalarValue) -> usize {
    match scalar {
        ScalarValue::Utf8(Some(text)) => text.len(),
        ScalarValue::Binary(Some(bytes)) => bytes.len(),
        _ => 0,
    }
}
