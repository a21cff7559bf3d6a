//! What ends an engine: the end of its lifeline, a signal, or a connection that stands for one.
//!
//! The process that starts an engine holds the other end of its standard input. When that process
//! is gone, however it went, the system closes the pipe, and the engine ends with it: no engine
//! outlives its executor.

use std::{
    io::{self, Read, Write},
    thread,
};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use crate::listen::Listener;

/// Resolves when standard input ends. A thread of its own reads it, for tokio's standard input
/// cannot be cancelled.
pub async fn stdin_ended() {
    let (sender, receiver) = oneshot::channel();
    let started = thread::Builder::new()
        .name("lifeline".to_owned())
        .spawn(move || {
            let mut stdin = io::stdin().lock();
            let mut ignored = [0; 256];
            while !matches!(stdin.read(&mut ignored), Ok(0) | Err(_)) {}
            let _ = sender.send(());
        });
    // Without a thread there is no lifeline, and an engine without one must not live: resolve at
    // once.
    if started.is_ok() {
        let _ = receiver.await;
    }
}

/// What it gives resolves at SIGTERM or SIGINT. From this call on they end the process no more by
/// themselves: it comes before the process says that it is ready. Called inside a runtime.
pub fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Resolves when somebody connects: what asks to stop where there are no signals, as from outside a
/// virtual machine.
pub async fn asked_at(stop: &Listener) {
    if let Err(error) = stop.accept().await {
        tracing::warn!("nobody can ask this process to stop: {error}");
        std::future::pending().await
    }
}

/// Turns the machine off, if this is its first process: it has no other, and were it just to end,
/// the kernel would panic.
pub fn turn_off() {
    if std::process::id() == 1 {
        let error = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
        tracing::error!("the machine cannot be turned off: {error:?}");
    }
}

/// Prints the one line of JSON that says where an engine listens.
pub fn say_ready(ready: &serde_json::Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{ready}")?;
    stdout.flush()
}
