//! Names of threads: a thread that has another name, as after `exec`, is announced again at once.

use crate::common::{self, CLIENT, Pair, Recording, SERVER, can_capture};

use magscope_core::Hop;
use rustix::thread::set_name;

const PORT: u16 = 5251;

/// The newest name of this thread.
fn name_of_this_thread(recording: &Recording) -> Option<String> {
    let own = common::sockets::tid();
    let mut tasks = recording.batches.iter().flat_map(|batch| &batch.tasks);
    tasks.rfind(|task| task.tid == own).map(|task| task.comm.clone())
}

#[test]
fn a_thread_with_another_name_is_announced_at_its_next_call() {
    if !can_capture() {
        return;
    }
    let net = common::quiet();
    let mut recording = net.capture(common::hops(&[Hop::AppSend, Hop::AppRecv, Hop::DevXmit]));
    let pair = Pair::new(&net, CLIENT, SERVER, PORT);
    // The names come again within the seconds after which every thread is announced again.
    for name in [c"first", c"second", c"first", c"second"] {
        set_name(name).expect("a thread may have any name");
        pair.send(1, 100);
        recording.drain_all();
        assert_eq!(name_of_this_thread(&recording).as_deref(), name.to_str().ok());
    }
}
