//! `coffer-proxy`: takes coffer-engine's place and arguments, runs the real one, and mutations. For
//! tests only.
//!
//! `PROXY_ENGINE` names the real engine (default: beside this program), `PROXY_CONTROL` the folder
//! of the control sockets.

use std::{
    env,
    ffi::OsString,
    io::{self, BufRead, Read, Write},
    os::unix::net::UnixListener,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    thread,
    time::Duration,
};

use coffer_proxy::{control::Control, engine::Engine, exchange, recorder::Recorder, relay::Relay};
use serde_json::Value;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let listen = arguments
        .iter()
        .position(|argument| argument == "--listen")
        .and_then(|at| arguments.get_mut(at + 1))
        .ok_or("there is no --listen")?;
    let address = listen.to_str().and_then(|text| text.strip_prefix("unix:"));
    let address = PathBuf::from(address.ok_or("only unix:PATH is relayed")?);
    let behind = address.with_extension("engine");
    *listen = format!("unix:{}", behind.display()).into();

    let program = match env::var_os("PROXY_ENGINE") {
        Some(path) => PathBuf::from(path),
        None => env::current_exe()?.with_file_name("coffer-engine"),
    };
    let folder = PathBuf::from(env::var_os("PROXY_CONTROL").ok_or("PROXY_CONTROL is not set")?);
    let (engine, mut sent) = Engine::start(&program, &arguments)?;
    let engine = Arc::new(engine);
    let mut line = String::new();
    sent.read_line(&mut line)?;
    let mut ready: Value = serde_json::from_str(&line).map_err(|_| "the engine did not start")?;
    ready["listening"] = format!("unix:{}", address.display()).into();

    let relay = Relay {
        engine: behind,
        recorder: Recorder::new(),
        exchange: Some(exchange::through(&folder)),
    };
    let listener = UnixListener::bind(&address)?;
    let control = Control::open(&folder, relay.clone(), Arc::clone(&engine))?;
    println!("{ready}");
    io::stdout().flush()?;
    let watched = Arc::clone(&control);
    thread::spawn(move || {
        // The lifeline: the executor's end of standard input closes when it goes.
        let mut rest = [0; 256];
        while !matches!(io::stdin().read(&mut rest), Ok(0) | Err(_)) {}
        watched.end()
    });
    thread::spawn(move || relay.accept(&listener));
    while engine.is_alive() {
        thread::sleep(Duration::from_millis(20));
    }
    // As the engine ends, so does what stands in for it.
    control.follow()
}
