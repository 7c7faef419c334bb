//! One client of the socket for programs: its requests, watches and notifications.

use super::caller::{Caller, cgroup, refused};
use super::client_slots::ClientSlot;
use super::lines::{LineRead, Lines, write_reply};
use magscope_client::wire::{
    Averages, Figure, LEAST_PAUSE_S, LONGEST_LINE, LONGEST_WINDOW_S, MOST_RECEIVES, Push, Refusal, Reply,
    Request, Transport, WatchStarted, WatchSubject, Watching, Window,
};
use magscope_core::flow::Proto;
use magscope_sensor::averages::{self, AverageStore, Subject};
use rustix::net::AddressFamily;
use rustix::net::sockopt::{socket_cookie, socket_domain};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Maximum number of watches per client.
const MOST_WATCHES: usize = 64;
/// Time within which a client must start a watch.
const BEGIN: Duration = Duration::from_secs(10);
/// Maximum idle time of a client with watches and without notifications.
const SILENCE: Duration = Duration::from_hours(1);
/// Timeout for a client that does not read.
const TAKING: Duration = Duration::from_secs(10);
/// Minimum interval between two answers, so that a busy client does not use the whole CPU.
const PAUSE: Duration = Duration::from_millis(2);
/// Maximum interval of notifications, seconds.
const LONGEST_PAUSE_S: f64 = 86_400.0;

/// A watch of this client.
struct ClientWatch {
    /// Its id in the shared state.
    id: u64,
    places: usize,
    /// The subject is the client's own process, which is verified at each answer.
    itself: bool,
    push: Option<Pushed>,
}

/// A notification of a watch.
struct Pushed {
    push: Push,
    reported: Option<f64>,
    due: Instant,
}

/// A client.
struct Client<'a> {
    averages: &'a AverageStore,
    slot: ClientSlot,
    watches: BTreeMap<u32, ClientWatch>,
    last: u32,
}

/// Serves a client until its end.
pub fn serve(stream: &UnixStream, slot: ClientSlot, averages: &AverageStore) {
    let mut client = Client { averages, slot, watches: BTreeMap::new(), last: 0 };
    // A connection error concerns only its peer.
    let _ = client.serve(stream);
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.watches.values().for_each(|own| self.averages.end(own.id));
    }
}

impl Client<'_> {
    fn serve(&mut self, stream: &UnixStream) -> io::Result<()> {
        stream.set_write_timeout(Some(TAKING))?;
        let mut lines = Lines::of(stream);
        let mut last_line = Instant::now();
        let mut answered: Option<Instant> = None;
        loop {
            let due = self.watches.values().filter_map(|own| own.push.as_ref()).map(|pushed| pushed.due).min();
            let silence = if self.watches.is_empty() { BEGIN } else { SILENCE };
            let until = due.unwrap_or(last_line + silence).saturating_duration_since(Instant::now());
            match lines.next(until)? {
                LineRead::End => return Ok(()),
                LineRead::Nothing if due.is_none() => return Ok(()),
                LineRead::Nothing => {}
                LineRead::Line(line) => {
                    last_line = Instant::now();
                    let early = answered.map(|answered| PAUSE.saturating_sub(answered.elapsed()));
                    std::thread::sleep(early.unwrap_or_default());
                    let reply = self.answer(&line, &mut lines).unwrap_or_else(Reply::Error);
                    write_reply(stream, &reply)?;
                    answered = Some(Instant::now());
                }
            }
            self.push(stream)?;
        }
    }

    fn answer(&mut self, line: &[u8], lines: &mut Lines<'_>) -> Result<Reply, Refusal> {
        let request: Request = serde_json::from_slice(line).map_err(|error| {
            let what = format!("this is no request: {error}");
            let next = format!(
                "a request is a line of JSON of at most {LONGEST_LINE} bytes, as docs/client.md has them"
            );
            refused(&what, "a word is misspelt, or the agent is of another version", &next)
        })?;
        match request {
            Request::Watch(watching) => {
                let begun = self.watch(&watching, lines);
                lines.close_fds();
                begun.map(Reply::Watching)
            }
            Request::Ask(id) => self.ask(id).map(|averages| Reply::Averages(Box::new(averages))),
            Request::End(id) => {
                let own = self.watches.remove(&id).ok_or_else(|| no_watch(id))?;
                self.averages.end(own.id);
                self.slot.give_back(own.places);
                Ok(Reply::Ended(id))
            }
        }
    }

    fn watch(&mut self, watching: &Watching, lines: &mut Lines<'_>) -> Result<WatchStarted, Refusal> {
        check(watching)?;
        let subject = subject(&self.slot.caller, &watching.of, lines)?;
        let too_many = |likely: &str| {
            refused(
                "nothing more can be watched",
                likely,
                "end watches that are not needed, or take shorter windows",
            )
        };
        if self.watches.len() >= MOST_WATCHES {
            return Err(too_many("this connection has as many watches as one may have"));
        }
        let places = averages::Averages::places_of(watching.window);
        if !self.slot.places(places) {
            return Err(too_many("the windows of this user's watches are as long, together, as they may be"));
        }
        let begun = self.averages.watch(subject, watching.window);
        let (id, since_ns) = begun.map_err(|error| {
            self.slot.give_back(places);
            too_many(&error.to_string())
        })?;
        self.last += 1;
        let due = |push| Pushed { push, reported: None, due: Instant::now() };
        let itself = watching.of == WatchSubject::Process;
        self.watches.insert(self.last, ClientWatch { id, places, itself, push: watching.push.map(due) });
        Ok(WatchStarted { id: self.last, since_ns })
    }

    fn ask(&self, id: u32) -> Result<Averages, Refusal> {
        let own = self.watches.get(&id).ok_or_else(|| no_watch(id))?;
        if own.itself {
            self.slot.caller.itself()?;
        }
        self.averages.of(own.id, id).ok_or_else(|| no_watch(id))
    }

    /// Sends notifications for changes above the threshold whose interval has passed.
    fn push(&mut self, stream: &UnixStream) -> io::Result<()> {
        let now = Instant::now();
        let due: Vec<u32> = self
            .watches
            .iter()
            .filter(|(_, own)| own.push.as_ref().is_some_and(|pushed| pushed.due <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let asked = self.ask(id);
            let refused = asked.is_err();
            let Some(own) = self.watches.get_mut(&id) else { continue };
            let Some(pushed) = &mut own.push else { continue };
            match asked {
                // The reason for the end is sent once.
                Err(refusal) => write_reply(stream, &Reply::Error(refusal))?,
                Ok(averages) => {
                    let figure = figure(&averages, pushed.push.of);
                    if has_changed(pushed.reported, figure, pushed.push.change) {
                        pushed.reported = figure;
                        pushed.due = now + Duration::from_secs_f64(pushed.push.pause_s);
                        write_reply(stream, &Reply::Changed(Box::new(averages)))?;
                    } else {
                        pushed.due = now + Duration::from_secs_f64(LEAST_PAUSE_S);
                    }
                }
            }
            if refused && let Some(own) = self.watches.remove(&id) {
                self.averages.end(own.id);
                self.slot.give_back(own.places);
            }
        }
        Ok(())
    }
}

fn no_watch(id: u32) -> Refusal {
    refused(
        &format!("there is no watch {id} on this connection"),
        "it was ended, or never begun",
        "begin one with `watch`, and use the number that it gives",
    )
}

/// Checks a request independent of its client.
fn check(watching: &Watching) -> Result<(), Refusal> {
    let wrong = |what: String| {
        let next = format!(
            "receives from 1 to {MOST_RECEIVES}, seconds from 0.001 to {LONGEST_WINDOW_S}, a change from 0 to 1000, \
             a pause from {LEAST_PAUSE_S} s to a day"
        );
        Err(refused(&what, "a number is beyond what is kept", &next))
    };
    match watching.window {
        Window::Receives(n) if (1..=MOST_RECEIVES).contains(&n) => {}
        Window::Seconds(s) if (0.001..=LONGEST_WINDOW_S).contains(&s) => {}
        window => return wrong(format!("{window:?} is no window")),
    }
    match watching.push {
        Some(push) if !(0.0..=1_000.0).contains(&push.change) => wrong(format!("{} is no change", push.change)),
        Some(push) if !(LEAST_PAUSE_S..=LONGEST_PAUSE_S).contains(&push.pause_s) => {
            wrong(format!("{} s is no pause", push.pause_s))
        }
        _ => Ok(()),
    }
}

/// The subject, if the client may watch it.
fn subject(caller: &Caller, what: &WatchSubject, lines: &mut Lines<'_>) -> Result<Subject, Refusal> {
    match what {
        WatchSubject::Socket => socket(lines),
        WatchSubject::Process => caller.itself().map(Subject::Process),
        WatchSubject::Container => {
            // A cgroup can contain other users' processes, such as those of a `sudo`, or all processes without
            // cgroup management.
            caller.must_be_root("a container")?;
            caller.cgroup().map(Subject::Cgroup)
        }
        WatchSubject::Cookie(cookie) => {
            caller.must_be_root("a socket by its cookie")?;
            Ok(Subject::Socket(*cookie))
        }
        WatchSubject::Pid(pid) => {
            caller.must_be_root("a process by its number")?;
            Ok(Subject::Process(*pid))
        }
        WatchSubject::Cgroup(path) => {
            caller.must_be_root("a container")?;
            cgroup(path).map(Subject::Cgroup)
        }
        WatchSubject::Flow(flow) => {
            caller.must_be_root("a flow by its addresses")?;
            let proto = match flow.proto {
                Transport::Tcp => Proto::TCP,
                Transport::Udp => Proto::UDP,
            };
            Ok(Subject::Flow { proto, local: flow.local, remote: flow.remote, netns: flow.netns })
        }
    }
}

/// The passed socket, which is closed here.
fn socket(lines: &mut Lines<'_>) -> Result<Subject, Refusal> {
    let next = "pass the socket's file descriptor with the line (SCM_RIGHTS): in Python `socket.send_fds`";
    let Some(fd) = lines.fd() else {
        return Err(refused(
            "no socket came with the request",
            "the line was sent without a file descriptor",
            next,
        ));
    };
    let inet = [AddressFamily::INET, AddressFamily::INET6];
    match (socket_domain(&fd), socket_cookie(&fd)) {
        (Ok(family), Ok(cookie)) if inet.contains(&family) => Ok(Subject::Socket(cookie)),
        _ => Err(refused(
            "what came with the request is no IPv4 or IPv6 socket",
            "another file descriptor was passed",
            next,
        )),
    }
}

/// The figure for notifications.
fn figure(averages: &Averages, of: Figure) -> Option<f64> {
    match of {
        Figure::Received => averages.received.get()?.window.bytes_per_s,
        Figure::Sent => averages.sent.get()?.window.bytes_per_s,
        Figure::Latency => averages.latency.get().map(|latency| latency.mean_ns),
    }
}

/// True if a figure appeared, disappeared, or changed by at least this fraction.
fn has_changed(reported: Option<f64>, now: Option<f64>, change: f64) -> bool {
    match (reported, now) {
        (Some(reported), Some(now)) => {
            reported.to_bits() != now.to_bits() && (now - reported).abs() >= change * reported.abs()
        }
        (None, None) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::has_changed;

    #[test]
    fn a_change_is_a_part_of_what_was_reported_last() {
        assert!(has_changed(Some(100.0), Some(110.0), 0.1) && has_changed(Some(100.0), Some(90.0), 0.1));
        assert!(!has_changed(Some(100.0), Some(109.0), 0.1) && !has_changed(Some(100.0), Some(100.0), 0.0));
        assert!(has_changed(Some(0.0), Some(1.0), 0.5) && !has_changed(None, None, 0.0));
        assert!(has_changed(None, Some(0.0), 0.5) && has_changed(Some(1.0), None, 0.5));
    }
}
