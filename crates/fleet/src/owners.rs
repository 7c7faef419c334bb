//! Maps sockets and flows to the processes that used them.

use magscope_core::{Event, Flow, FlowId, Task};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Maximum number of flows, tasks and sockets, each. The agent repeats announcements, so evicted entries
/// return.
const MOST: usize = 1 << 16;

/// Announced flows and tasks, and the thread that uses each socket and flow. Bounded.
#[derive(Debug, Default)]
pub struct Owners {
    flows: HashMap<FlowId, Announced<Flow>>,
    tasks: HashMap<u32, Announced<Task>>,
    sockets: HashMap<u64, Owner>,
    users: HashMap<FlowId, User>,
    /// The own end of each socket, without its peer.
    own_ends: HashMap<u64, Flow>,
}

#[derive(Debug)]
struct Announced<T> {
    what: T,
    passed_on: bool,
}

/// The last thread that used a socket.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The thread id.
    pub tid: u32,
    /// Threads of several or unknown cgroups use the socket.
    pub shared: bool,
}

/// Owner of a flow since an instant.
#[derive(Clone, Copy, Debug)]
struct User {
    since_ns: u64,
    by: OwnerKey,
}

#[derive(Clone, Copy, Debug)]
enum OwnerKey {
    Socket(u64),
    Thread(Owner),
}

/// Process information of a row.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// Time of the row.
    pub time_ns: u64,
    /// The thread; 0 if unknown.
    pub tid: u32,
    /// The socket; 0 if unknown.
    pub socket: u64,
    /// The flow, if any.
    pub flow: FlowId,
}

impl Owners {
    /// Memory of its tables, bytes.
    pub fn held_bytes(&self) -> u64 {
        // A table has one control byte per slot, and a task has its name on the heap.
        fn table<K, V>(map: &HashMap<K, V>) -> usize {
            // One slot in eight stays free.
            map.capacity() * (size_of::<(K, V)>() + 1) * 8 / 7
        }
        let names: usize = self.tasks.len() * 32;
        let announced = table(&self.flows) + table(&self.tasks);
        let tables = announced + table(&self.sockets) + table(&self.users) + table(&self.own_ends);
        (tables + names) as u64
    }

    /// Stores a flow.
    pub fn announce_flow(&mut self, flow: Flow) {
        remember(&mut self.flows, flow.id, flow);
    }

    /// Stores a thread.
    pub fn announce_task(&mut self, task: Task) {
        remember(&mut self.tasks, task.tid, task);
    }

    /// Updates the owner of an event's socket and flow. Events must arrive in time order.
    pub fn learn(&mut self, event: &Event) {
        let tid = if event.hop.knows_process() { event.tid } else { 0 };
        let (socket, flow) = (event.socket, event.flow);
        if tid != 0 && socket != 0 {
            let owner = self.joined(self.sockets.get(&socket).copied(), tid);
            bounded(&mut self.sockets).insert(socket, owner);
        }
        if flow.is_none() {
            return;
        }
        self.learn_own_end(socket, flow);
        let previous = self.users.get(&flow).copied();
        let by = match (socket, tid, previous) {
            (0, 0, _) => return,
            (0, _, Some(User { by: OwnerKey::Thread(owner), .. })) => {
                OwnerKey::Thread(self.joined(Some(owner), tid))
            }
            (0, ..) => OwnerKey::Thread(Owner { tid, shared: false }),
            // Ports are reused: the flow belongs to the last socket seen with it.
            (socket, ..) => OwnerKey::Socket(socket),
        };
        let same = match (previous.map(|user| user.by), by) {
            (Some(OwnerKey::Socket(before)), OwnerKey::Socket(now)) => before == now,
            (Some(OwnerKey::Thread(_)), OwnerKey::Thread(_)) => true,
            _ => false,
        };
        let since_ns = previous.filter(|_| same).map_or(event.time_ns, |user| user.since_ns);
        bounded(&mut self.users).insert(flow, User { since_ns, by });
    }

    fn learn_own_end(&mut self, socket: u64, flow: FlowId) {
        let Some(flow) = self.flow(flow).filter(|_| socket != 0).copied() else { return };
        let nowhere = |port| match flow.local {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        };
        let own = Flow { remote: nowhere(0), ..flow };
        let seen = bounded(&mut self.own_ends).entry(socket).or_insert(own);
        if (seen.local, seen.netns) != (own.local, own.netns) {
            // It takes what comes to several addresses; its port is the same.
            let port = if seen.local.port() == own.local.port() { own.local.port() } else { 0 };
            *seen = Flow { local: nowhere(port), ..own };
        }
    }

    /// The flow of a row; of a socket without a peer its own end, with an unspecified other one.
    pub fn flow_or_own_end(&self, flow: FlowId, socket: u64) -> Option<&Flow> {
        if flow.is_none() { self.own_ends.get(&socket) } else { self.flow(flow) }
    }

    /// The owner after another thread uses the same socket.
    fn joined(&self, before: Option<Owner>, tid: u32) -> Owner {
        let cgroup = |tid: u32| self.task(tid).map(|task| task.cgroup);
        let shared = before.is_some_and(|before| {
            let apart = before.tid != tid && (cgroup(tid).is_none() || cgroup(before.tid) != cgroup(tid));
            before.shared || apart
        });
        Owner { tid, shared }
    }

    /// The owner of a row's socket at that time.
    pub fn owner(&self, used: &Used) -> Option<Owner> {
        if used.tid != 0 {
            return Some(Owner { tid: used.tid, shared: false });
        }
        if used.socket != 0 {
            return self.sockets.get(&used.socket).copied();
        }
        let user = self.users.get(&used.flow).filter(|user| user.since_ns <= used.time_ns)?;
        match user.by {
            OwnerKey::Socket(socket) => self.sockets.get(&socket).copied(),
            OwnerKey::Thread(owner) => Some(owner),
        }
    }

    /// A flow, if it was announced.
    pub fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id).map(|announced| &announced.what)
    }

    /// A thread, if it was announced.
    pub fn task(&self, tid: u32) -> Option<&Task> {
        self.tasks.get(&tid).map(|announced| &announced.what)
    }

    /// Marks a flow as sent; returns it if it was not sent before.
    pub fn pass_flow_on(&mut self, id: FlowId) -> Option<Flow> {
        pass_on(&mut self.flows, &id)
    }

    /// Marks a thread as sent; returns it if it was not sent before.
    pub fn pass_task_on(&mut self, tid: u32) -> Option<Task> {
        pass_on(&mut self.tasks, &tid)
    }
}

fn bounded<K, V>(map: &mut HashMap<K, V>) -> &mut HashMap<K, V> {
    if map.len() >= MOST {
        map.clear();
    }
    map
}

fn remember<K: Hash + Eq, T: PartialEq>(map: &mut HashMap<K, Announced<T>>, key: K, what: T) {
    if map.get(&key).is_none_or(|announced| announced.what != what) {
        bounded(map).insert(key, Announced { what, passed_on: false });
    }
}

fn pass_on<K: Hash + Eq, T: Clone>(map: &mut HashMap<K, Announced<T>>, key: &K) -> Option<T> {
    let announced = map.get_mut(key).filter(|announced| !announced.passed_on)?;
    announced.passed_on = true;
    Some(announced.what.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::Hop;

    const FLOW: FlowId = FlowId(9);

    fn call(tid: u32, socket: u64, time_ns: u64) -> Event {
        Event { tid, tgid: tid, socket, flow: FLOW, ..Event::at(Hop::AppSend, time_ns) }
    }

    fn of_flow(owners: &Owners, time_ns: u64) -> Option<(u32, bool)> {
        let owner = owners.owner(&Used { time_ns, tid: 0, socket: 0, flow: FLOW });
        owner.map(|owner| (owner.tid, owner.shared))
    }

    fn owners() -> Owners {
        let mut owners = Owners::default();
        for (tid, cgroup) in [(1, 10), (2, 10), (3, 30)] {
            owners.announce_task(Task { tgid: tid, tid, uid: 0, cgroup, comm: String::new() });
        }
        owners
    }

    #[test]
    fn a_flow_belongs_to_the_thread_that_uses_its_socket() {
        let mut owners = owners();
        assert_eq!(of_flow(&owners, 5), None);
        owners.learn(&call(1, 7, 10));
        assert_eq!(of_flow(&owners, 10), Some((1, false)));
        assert_eq!(of_flow(&owners, 9), None, "before the first use");
        owners.learn(&call(2, 7, 20));
        assert_eq!(of_flow(&owners, 20), Some((2, false)), "another thread of the same cgroup");
    }

    #[test]
    fn a_socket_of_several_cgroups_is_shared_from_then_on() {
        for other in [3, 4] {
            let mut owners = owners();
            owners.learn(&call(1, 7, 10));
            owners.learn(&call(other, 7, 20));
            owners.learn(&call(1, 7, 30));
            assert_eq!(of_flow(&owners, 30), Some((1, true)), "{other}");
        }
    }

    #[test]
    fn ports_that_are_used_again_belong_to_the_next_socket() {
        let mut owners = owners();
        owners.learn(&call(1, 7, 10));
        owners.learn(&Event { socket: 8, flow: FLOW, ..Event::at(Hop::TcpXmit, 20) });
        assert_eq!(of_flow(&owners, 20), None, "nobody was seen using the next socket yet");
        owners.learn(&call(3, 8, 30));
        assert_eq!(of_flow(&owners, 30), Some((3, false)));
        assert_eq!(of_flow(&owners, 15), None, "an instant of the socket before");
    }
}
