//! `coffer-range-server FOLDER [--delay-ms N]`: a folder as a read-only bucket of S3, on loopback.
//!
//! One thread for each connection, and blocking calls: a benchmark has few connections. What it is
//! asked for stays below the folder; it is for files that are no secret, and for this machine.

mod answer;
mod list;
mod request;

use std::{
    env,
    io::{self, BufReader, BufWriter, Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use answer::Answer;
use request::Request;

/// What all connections have in common.
pub(crate) struct Site {
    folder: PathBuf,
    delay: Duration,
    requests: AtomicU64,
    bytes: AtomicU64,
}

fn main() -> ExitCode {
    let Some((folder, delay)) = arguments() else {
        eprintln!("error: usage: coffer-range-server FOLDER [--delay-ms N]");
        return ExitCode::from(2);
    };
    match serve(folder, delay) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Option<(PathBuf, Duration)> {
    let mut folder = None;
    let mut delay = Duration::ZERO;
    let mut words = env::args_os().skip(1);
    while let Some(word) = words.next() {
        if word == "--delay-ms" {
            delay = Duration::from_millis(words.next()?.to_str()?.parse().ok()?);
        } else if folder.replace(PathBuf::from(word)).is_some() {
            return None;
        }
    }
    Some((folder?, delay))
}

fn serve(folder: PathBuf, delay: Duration) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut out = io::stdout();
    writeln!(out, "listening on http://{}", listener.local_addr()?)?;
    out.flush()?;
    let site = Arc::new(Site {
        folder,
        delay,
        requests: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    });
    for stream in listener.incoming() {
        let (site, stream) = (Arc::clone(&site), stream?);
        thread::spawn(move || {
            // Whoever went away in the middle has gone.
            let _ = converse(&site, &stream);
        });
    }
    Ok(())
}

/// One connection's requests, one after the other.
fn converse(site: &Site, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut read = BufReader::new(stream);
    let mut write = BufWriter::with_capacity(1 << 18, stream);
    while let Some(request) = Request::read(&mut read)? {
        let answer = match request.path.as_str() {
            "/-/counts" => Answer::text("application/json", counts(site)?),
            _ => {
                thread::sleep(site.delay);
                site.requests.fetch_add(1, Ordering::Relaxed);
                answer::of(&site.folder, &request)?
            }
        };
        let sent = answer.send(&mut write, request.method == "HEAD")?;
        if request.path != "/-/counts" {
            site.bytes.fetch_add(sent, Ordering::Relaxed);
        }
        write.flush()?;
        if request.closes {
            break;
        }
    }
    Ok(())
}

/// What was asked for until now.
fn counts(site: &Site) -> io::Result<String> {
    Ok(format!(
        "{{\"requests\": {}, \"bytes\": {}, \"cpu_ms\": {}}}\n",
        site.requests.load(Ordering::Relaxed),
        site.bytes.load(Ordering::Relaxed),
        cpu_ms()?
    ))
}

/// User and system time of this process, in milliseconds. The kernel counts hundredths of seconds.
fn cpu_ms() -> io::Result<u64> {
    let mut stat = String::new();
    std::fs::File::open("/proc/self/stat")?.read_to_string(&mut stat)?;
    // The name of the program, in parentheses, may hold spaces.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |at: usize| rest.split_whitespace().nth(at)?.parse::<u64>().ok();
    let ticks = field(11).zip(field(12)).map(|(user, system)| user + system);
    ticks
        .map(|ticks| ticks * 10)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}
