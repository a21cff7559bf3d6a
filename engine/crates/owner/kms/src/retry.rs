//! Asks the servers of a master one after the other, and again after a while, until one answers or
//! the time is over.
//!
//! Waiting doubles from round to round and is drawn at random between half and all of it
//! (exponential backoff with jitter), so that many clients of a server that comes back do not ask
//! it in step.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use coffer_custody::MasterError;

use crate::http::{Answer, Trouble};

/// The first wait at most; it doubles …
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// … up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Rounds over all servers at most, whatever the time-out.
const ROUNDS: u32 = 8;

/// Whether a request may be sent again after it may have been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// It changes nothing, or the same whenever.
    Yes,
    /// It is sent to the next server only if this one took no connection, and no second time.
    No,
}

/// The servers of one master.
pub(crate) struct Servers {
    /// For errors.
    of: String,
    addresses: Vec<String>,
    timeout: Duration,
    /// The one that answered last is asked first.
    last: AtomicUsize,
}

impl Servers {
    pub(crate) fn new(of: String, addresses: Vec<String>, timeout: Duration) -> Self {
        Self {
            of,
            addresses,
            timeout,
            last: AtomicUsize::new(0),
        }
    }

    /// `ask` is given a server's address and the time it may take. Answers with a status that says
    /// *later* (429, 502, 503, 504) count as no answer.
    pub(crate) fn ask(
        &self,
        again: Again,
        mut ask: impl FnMut(&str, Duration) -> Result<Answer, Trouble>,
    ) -> Result<Answer, MasterError> {
        let end = Instant::now() + self.timeout;
        // A server that hangs leaves time for another, or for a second try.
        let share = u32::try_from(self.addresses.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let turn = (self.timeout / share).max(Duration::from_millis(500));
        // Each server's last words.
        let (mut wait, mut reasons) = (FIRST_WAIT, vec![String::new(); self.addresses.len()]);
        for round in 0..ROUNDS {
            let (mut garbled, mut unready) = (None, None);
            for step in 0..self.addresses.len() {
                let at =
                    self.last.load(Ordering::Relaxed).wrapping_add(step) % self.addresses.len();
                let (Some(address), left) = (
                    self.addresses.get(at),
                    end.saturating_duration_since(Instant::now()),
                ) else {
                    break;
                };
                if left.is_zero() {
                    break;
                }
                let message = match ask(address, turn.min(left)) {
                    Ok(answer) if !is_later(answer.status) => {
                        self.last.store(at, Ordering::Relaxed);
                        return Ok(answer);
                    }
                    Ok(answer) => format!("status {}", answer.status),
                    Err(Trouble::Unsent(message)) => message,
                    Err(Trouble::Away(message)) if again == Again::No => {
                        return Err(MasterError::Unreachable {
                            of: self.of.clone(),
                            reason: format!(
                                "{address}: {message}, and it may have been done all the same"
                            ),
                        });
                    }
                    Err(Trouble::Away(message)) => message,
                    Err(Trouble::Garbage(message)) => garbled.insert(message).clone(),
                    Err(Trouble::Settings(message)) => unready.insert(message).clone(),
                };
                tracing::warn!(master = self.of, address, round, "no answer: {message}");
                if let Some(last) = reasons.get_mut(at) {
                    *last = format!("{address}: {message}");
                }
            }
            // Whoever talks nonsense goes on doing so; time heals what is away only.
            if let Some(reason) = garbled {
                return Err(crate::garbage(&self.of, reason));
            }
            if let Some(reason) = unready {
                return Err(MasterError::Settings {
                    of: self.of.clone(),
                    reason,
                });
            }
            let left = end.saturating_duration_since(Instant::now());
            let pause = jittered(wait);
            if again == Again::No || left <= pause {
                break;
            }
            thread::sleep(pause);
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        reasons.retain(|message| !message.is_empty());
        Err(MasterError::Unreachable {
            of: self.of.clone(),
            reason: reasons.join("; "),
        })
    }
}

fn is_later(status: u16) -> bool {
    matches!(status, 429 | 502..=504)
}

/// Between half and all of it. The system's random source cannot be had: all of it.
fn jittered(wait: Duration) -> Duration {
    let mut byte = [u8::MAX];
    let _ = coffer_sealing::fill_random(&mut byte);
    let [byte] = byte;
    wait / 2 + wait / 2 * u32::from(byte) / 255
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    fn answer(status: u16) -> Result<Answer, Trouble> {
        Ok(Answer {
            status,
            body: Zeroizing::new(Vec::new()),
        })
    }

    fn servers(timeout: u64) -> Servers {
        let addresses = vec!["a".to_owned(), "b".to_owned()];
        Servers::new("test".to_owned(), addresses, Duration::from_millis(timeout))
    }

    fn away() -> Result<Answer, Trouble> {
        Err(Trouble::Away("away".to_owned()))
    }

    #[test]
    fn the_other_server_is_asked_and_then_asked_first() {
        let (servers, mut asked) = (servers(2_000), Vec::new());
        for _ in 0..2 {
            let answered = servers.ask(Again::Yes, |address, _| {
                asked.push(address.to_owned());
                if address == "a" { away() } else { answer(200) }
            });
            assert_eq!(answered.unwrap().status, 200);
        }
        assert_eq!(asked, ["a", "b", "b"]);
    }

    #[test]
    fn a_server_that_comes_back_is_found_and_one_that_does_not_is_given_up() {
        let (mut calls, start) = (0, Instant::now());
        let answered = servers(5_000).ask(Again::Yes, |_, _| {
            calls += 1;
            if calls < 6 { away() } else { answer(200) }
        });
        assert_eq!((answered.unwrap().status, calls), (200, 6));
        let gone = servers(600).ask(Again::Yes, |_, _| away());
        let Err(MasterError::Unreachable { reason, .. }) = gone else {
            panic!()
        };
        assert_eq!(reason, "a: away; b: away");
        assert!(start.elapsed() < Duration::from_secs(3));
    }

    #[test]
    fn later_is_no_answer_and_a_refusal_is_one() {
        let mut calls = 0;
        let answered = servers(5_000).ask(Again::Yes, |_, _| {
            calls += 1;
            answer(if calls < 3 { 503 } else { 403 })
        });
        assert_eq!((answered.unwrap().status, calls), (403, 3));
    }

    #[test]
    fn nonsense_is_not_asked_for_again_and_what_changes_things_only_once() {
        let mut calls = 0;
        let garbled = servers(5_000).ask(Again::Yes, |_, _| {
            calls += 1;
            Err(Trouble::Garbage("what?".to_owned()))
        });
        assert!(matches!(garbled, Err(MasterError::Garbage { .. })));
        assert_eq!(calls, 2);
        for (trouble, tries) in [
            (Trouble::Unsent as fn(String) -> Trouble, 2),
            (Trouble::Away, 1),
        ] {
            calls = 0;
            let changed = servers(5_000).ask(Again::No, |_, _| {
                calls += 1;
                Err(trouble("no".to_owned()))
            });
            assert!(matches!(changed, Err(MasterError::Unreachable { .. })));
            assert_eq!(calls, tries);
        }
    }
}
