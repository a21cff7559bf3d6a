//! Times Coffer's sealing of frames beside raw AWS-LC, and prints a line of JSON for each.
//!
//! usage: `coffer-cipher-bench SECONDS SIZES THREADS`, lists by commas; each measurement takes
//! twice the seconds, once to warm up.
//!
//! A plaintext comes from somewhere, so each side takes it from one buffer and leaves ciphertext in
//! another: `aws-lc` copies it and encrypts the copy in place, as its interface has it, and
//! `coffer` seals a frame of it. `aws-lc-in-place` leaves out the copy. Keys have 256 bits, each
//! frame has a nonce of its own. `coffer-open` opens sealed frames, from a copy, since they are
//! opened in place. `coffer-message` seals messages, such as commit records, and opens them again.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    cipher::{AES_256, EncryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey},
    error::Unspecified,
};
use coffer_sealing::{
    Attempt, Error, ExecutionId, Partition, SessionId, SessionKey, StageId, StreamIdentity,
    StreamOpener, StreamSealer, StreamTarget, identity, open_message, seal_message,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;
/// Encrypts one frame.
type Work = Box<dyn FnMut() -> Result<(), Failure>>;
/// Makes the work for frames of a size, in the thread that does it.
type Setup = fn(usize) -> Result<Work, Failure>;

const SIDES: [(&str, &str, Setup); 7] = [
    ("aws-lc", "gcm", |size| raw_gcm(size, true)),
    ("aws-lc-in-place", "gcm", |size| raw_gcm(size, false)),
    ("aws-lc", "ctr", raw_ctr),
    ("aws-lc", "cbc", raw_cbc),
    ("coffer", "gcm", seal),
    ("coffer-open", "gcm", open),
    ("coffer-message", "gcm", message),
];
/// Frames under one key: well below what a key may seal.
const FRAMES: u64 = 1 << 20;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, sizes, threads] = arguments.as_slice() else {
        return Err("usage: coffer-cipher-bench SECONDS SIZES THREADS".into());
    };
    let seconds = Duration::from_secs_f64(seconds.parse()?);
    for (library, mode, setup) in SIDES {
        for size in sizes.split(',') {
            for threads in threads.split(',') {
                let rate = rate(setup, size.parse()?, threads.parse()?, seconds)?;
                println!(
                    "{{\"library\": \"{library}\", \"mode\": \"{mode}\", \"size\": {size}, \
                     \"threads\": {threads}, \"bytes_per_s\": {rate:.0}}}"
                );
            }
        }
    }
    Ok(())
}

/// Bytes per second of all threads together.
fn rate(setup: Setup, size: usize, threads: usize, seconds: Duration) -> Result<f64, Failure> {
    let warm = Arc::new(Barrier::new(threads));
    let running: Vec<_> = (0..threads)
        .map(|_| {
            let warm = Arc::clone(&warm);
            thread::spawn(move || -> Result<f64, Failure> {
                let work = setup(size);
                let warmed = work.and_then(|mut work| frames(&mut work, seconds).map(|_| work));
                // Whoever failed must not keep the others waiting.
                warm.wait();
                let (frames, took) = frames(&mut warmed?, seconds)?;
                Ok(frames * as_f64(size)? / took.as_secs_f64())
            })
        })
        .collect();
    running.into_iter().try_fold(0.0, |sum, thread| {
        Ok(sum + thread.join().map_err(|_| "a thread has panicked")??)
    })
}

fn frames(work: &mut Work, seconds: Duration) -> Result<(f64, Duration), Failure> {
    let (start, mut frames) = (Instant::now(), 0.0);
    loop {
        work()?;
        frames += 1.0;
        let took = start.elapsed();
        if took >= seconds {
            return Ok((frames, took));
        }
    }
}

fn as_f64(size: usize) -> Result<f64, Failure> {
    Ok(f64::from(u32::try_from(size)?))
}

fn raw_gcm(size: usize, copied: bool) -> Result<Work, Failure> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[1; 32])?);
    let (plain, mut out, mut number) = (vec![2; size], vec![2; size], 0_u64);
    Ok(Box::new(move || {
        number += 1;
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        if copied {
            out.copy_from_slice(&plain);
        }
        let _tag = key.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from([3; 16]),
            &mut out,
        )?;
        Ok(())
    }))
}

fn raw_ctr(size: usize) -> Result<Work, Failure> {
    let key = EncryptingKey::ctr(UnboundCipherKey::new(&AES_256, &[1; 32])?)?;
    let (plain, mut out) = (vec![2; size], vec![0; size]);
    Ok(Box::new(move || {
        out.copy_from_slice(&plain);
        key.encrypt(&mut out)
            .map(drop)
            .map_err(|e: Unspecified| e.into())
    }))
}

fn raw_cbc(size: usize) -> Result<Work, Failure> {
    let key = PaddedBlockEncryptingKey::cbc_pkcs7(UnboundCipherKey::new(&AES_256, &[1; 32])?)?;
    let (plain, mut out) = (vec![2; size], Vec::with_capacity(size + 16));
    Ok(Box::new(move || {
        out.clear();
        out.extend_from_slice(&plain);
        key.encrypt(&mut out)
            .map(drop)
            .map_err(|e: Unspecified| e.into())
    }))
}

/// A stream's sealer, and what opens the stream.
fn stream() -> Result<(StreamSealer, SessionKey, StreamIdentity), Error> {
    let key = SessionKey::generate()?;
    let mut attempt = Attempt::begin(
        &key,
        SessionId([1; 16]),
        ExecutionId(1),
        StageId(1),
        Partition(1),
    )?;
    let sealer = attempt.sealer(StreamTarget::Result)?;
    let identity = *sealer.identity();
    Ok((sealer, key, identity))
}

fn seal(size: usize) -> Result<Work, Failure> {
    let (plain, mut out) = (vec![2; size], Vec::with_capacity(size + 64));
    let (mut sealer, ..) = stream()?;
    Ok(Box::new(move || {
        if sealer.frames() >= FRAMES {
            (sealer, ..) = stream()?;
        }
        out.clear();
        sealer.seal(&plain, false, &mut out)?;
        Ok(())
    }))
}

/// Of a stream of one frame: the work of opening it begins anew each time, as each frame has its
/// place.
fn open(size: usize) -> Result<Work, Failure> {
    let (mut sealer, key, identity) = stream()?;
    let (plain, mut frame) = (vec![2; size], Vec::new());
    sealer.seal(&plain, true, &mut frame)?;
    let mut buffer = vec![0; frame.len()];
    Ok(Box::new(move || {
        buffer.copy_from_slice(&frame);
        let opened = StreamOpener::new(&key, identity)?.open(buffer.as_mut_slice())?;
        if opened.plain().len() == plain.len() {
            Ok(())
        } else {
            Err("a frame did not open".into())
        }
    }))
}

fn message(size: usize) -> Result<Work, Failure> {
    let (key, plain) = (SessionKey::generate()?, vec![2; size]);
    let commit = identity::commit(SessionId([1; 16]), StageId(1), Partition(1));
    Ok(Box::new(move || {
        let sealed = seal_message(&key, &commit, &plain)?;
        if open_message(&key, &commit, &sealed)?.len() == plain.len() {
            Ok(())
        } else {
            Err("a message did not open".into())
        }
    }))
}
